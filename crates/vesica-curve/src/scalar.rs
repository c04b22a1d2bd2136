//! Numbers modulo a group's order: what a secret scalar is made from, in constant time.

/// `bytes mod order`, as four words in little-endian order; `bytes` are little-endian too, and the order is below 2^255.
///
/// Bit by bit, from the top: shift in, subtract the order if it fits. It runs once per key, so it may be slow and plain.
pub(crate) fn reduce(bytes: &[u8; 64], order: &[u64; 4]) -> [u64; 4] {
    let mut r = [0u64; 4];
    for i in (0..512).rev() {
        let mut carry = u64::from(bytes[i / 8] >> (i % 8) & 1);
        for word in &mut r {
            let top = *word >> 63;
            *word = *word << 1 | carry;
            carry = top;
        }
        subtract_if_above(&mut r, order);
    }
    r
}

/// `r mod order` for `r` below twice the order.
fn subtract_if_above(r: &mut [u64; 4], order: &[u64; 4]) {
    let mut less = [0u64; 4];
    let mut borrow = false;
    for i in 0..4 {
        (less[i], borrow) = r[i].borrowing_sub(order[i], borrow);
    }
    let keep = std::hint::black_box(u64::from(borrow)).wrapping_neg();
    for i in 0..4 {
        r[i] = (r[i] & keep) | (less[i] & !keep);
    }
}

/// The number itself, or 1 in place of 0 (which has probability 2^-252).
pub(crate) fn not_zero(mut words: [u64; 4]) -> [u64; 4] {
    let any = words[0] | words[1] | words[2] | words[3];
    // The top bit of x | -x is set unless x = 0.
    words[0] |= (std::hint::black_box(any | any.wrapping_neg()) >> 63) ^ 1;
    words
}
