//! How values are written in documents.

/// Whether it is what an absent field stands for, so that it need not be written.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The words that an enum's variants are written as: `name` says that of one, and `ALL` lists all variants in order.
///
/// `words!(Mode { Fast = "fast", LowComm = "low-comm" })` makes `Mode::LowComm.name()` `"low-comm"`.
#[macro_export]
macro_rules! words {
    ($Name:ident { $($variant:ident = $word:literal),* $(,)? }) => {
        impl $Name {
            /// Every one, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word that it is written as.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }
    };
}
