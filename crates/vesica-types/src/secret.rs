use std::fmt;
use zeroize::{Zeroize, Zeroizing};

/// A value that neither prints, nor is copied, nor outlives its use: it is zeroized when dropped.
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Takes charge of `value`. Whatever copy the caller still holds is the caller's to wipe.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself; every use of it shows in the source as this word.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A party's own chance for a run, from which its noise is drawn. It is kept with the run, so it is copied on purpose; but it does not
/// print, and each copy is zeroized when dropped. Whoever has it can take the noise off a result.
#[derive(Clone, PartialEq, Eq)]
pub struct Coins(Zeroizing<[u8; 32]>);

impl Coins {
    /// Takes charge of `coins`.
    pub fn new(coins: [u8; 32]) -> Self {
        Self(Zeroizing::new(coins))
    }

    /// The bytes themselves; every use of them shows in the source as this word.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Coins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Coins(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_does_not_print() {
        let printed = format!("{:?} {:?}", Secret::new([77u8; 4]), Coins::new([77; 32]));
        assert_eq!(printed, "Secret(..) Coins(..)");
    }
}
