use std::fmt;
use zeroize::Zeroize;

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
