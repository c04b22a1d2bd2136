//! How everything that this crate sends begins, in all its versions.

/// The version of everything that this crate sends, from the hello to the frames.
pub const WIRE_VERSION: u32 = 11;

/// How a hello begins. The line end is there to meet those who would change it.
pub(crate) const MAGIC: [u8; 8] = *b"vesica\r\n";

/// Whether `bytes` can be the beginning of a hello.
pub(crate) fn is_ours(bytes: &[u8]) -> bool {
    let n = bytes.len().min(MAGIC.len());
    n > 0 && bytes.get(..n) == MAGIC.get(..n)
}
