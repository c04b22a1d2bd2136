//! Vectors of megabytes, on large pages where the system has them: every page costs a fault when it is first touched, and at
//! random places of many small pages every access would miss the TLB.

use crate::backend::prefer_large;

/// `vec![value; len]`.
pub fn filled<T: Clone>(value: T, len: usize) -> Vec<T> {
    let mut memory = Vec::new();
    reserve(&mut memory, len);
    memory.resize(len, value);
    memory
}

/// `vec![0; len]`, whose pages are not touched yet.
pub fn zeroed(len: usize) -> Vec<u8> {
    let memory = vec![0; len];
    prefer_large(&memory);
    memory
}

/// [`Vec::reserve`].
pub fn reserve<T>(memory: &mut Vec<T>, additional: usize) {
    memory.reserve(additional);
    prefer_large(memory.spare_capacity_mut());
}
