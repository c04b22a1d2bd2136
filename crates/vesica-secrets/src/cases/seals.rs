//! Sealing: ChaCha20-Poly1305 under derived keys, as stores and ledgers use it; and the noise of counts.

use super::Case;
use crate::backend::reveal;
use crate::watch::Watch;
use vesica_psi::noise;
use vesica_store::{open_value, seal_value};

pub fn cases() -> Vec<Case> {
    vec![
        Case::timed("seals/value", value),
        Case::new("noise/bit", |watch| {
            let mut rng = watch.rng();
            watch.result(&[noise::bit(3 << 126, &mut rng)]);
        }),
        Case::new("noise/number", |watch| {
            let mut rng = watch.rng();
            watch.result(&[noise::number(&[1, 2, 4, 8, 4, 2, 1], &mut rng)]);
        }),
        Case::new("noise/laplace", |watch| {
            let mut rng = watch.rng();
            watch.result(&[noise::laplace(3, 2, &mut rng)]);
        }),
    ]
}

/// A value under the function's output. Its length is public, and whether it opens.
fn value(watch: &mut Watch) {
    let (output, text) = (watch.secret(), watch.bytes(100));
    let mut sealed = Vec::new();
    watch.measure(|| seal_value(&output, &[3; 32], &text, 120, &mut sealed)).expect("a short value");
    watch.result(&sealed);
    reveal(&sealed);
    let opened = watch.measure(|| open_value(&output, &[3; 32], &sealed)).expect("the same output");
    // How long the value is came out of it.
    reveal(std::slice::from_ref(&opened));
    watch.result(&opened);
}
