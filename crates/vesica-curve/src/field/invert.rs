//! Inversion modulo a 256-bit prime, in constant time, of one number: the one place where lanes do not help.
//!
//! D. Bernstein, B. Yang, "Fast constant-time gcd computation and modular inversion", TCHES 2019/3, in the variant of
//! P. Wuille (libsecp256k1, `doc/safegcd_implementation.md`): division steps on `zeta`, 59 at a time on one word, and 590
//! of them for inputs below 2^256, which is proven enough.

/// Low 62 bits.
const LOW_62: u64 = u64::MAX >> 2;

/// A number in signed limbs of 62 bits.
type Signed62 = [i64; 5];

/// The inverse of `x` modulo the odd prime `p`, or zero for zero. `x` must be below `p`, and `inverse_62` the inverse of
/// `p` modulo 2^62.
pub(crate) fn invert(x: [u64; 4], p: [u64; 4], inverse_62: u64) -> [u64; 4] {
    let p = signed_62(p);
    let (mut d, mut e) = ([0i64; 5], [1, 0, 0, 0, 0]);
    let (mut f, mut g) = (p, signed_62(x));
    let mut zeta = -1i64;
    for _ in 0..10 {
        let (next, t) = divsteps_59(zeta, f[0] as u64, g[0] as u64);
        zeta = next;
        update_de(&mut d, &mut e, &t, &p, inverse_62);
        update_fg(&mut f, &mut g, &t);
    }
    // Now g = 0 and f = ±1 (or ±p, for x = 0), and d is ± the inverse, in (-2p, p).
    normalise(d, f[4] >> 63, &p)
}

fn signed_62(x: [u64; 4]) -> Signed62 {
    [
        (x[0] & LOW_62) as i64,
        ((x[0] >> 62 | x[1] << 2) & LOW_62) as i64,
        ((x[1] >> 60 | x[2] << 4) & LOW_62) as i64,
        ((x[2] >> 58 | x[3] << 6) & LOW_62) as i64,
        (x[3] >> 56) as i64,
    ]
}

/// The matrix [[u, v], [q, r]] of a run of division steps, times 2^62.
struct Transition {
    u: i64,
    v: i64,
    q: i64,
    r: i64,
}

fn divsteps_59(mut zeta: i64, f0: u64, g0: u64) -> (i64, Transition) {
    // The matrix starts at 2^3, so that after 59 doublings it is scaled by 2^62.
    let (mut u, mut v, mut q, mut r) = (8u64, 0u64, 0u64, 8u64);
    let (mut f, mut g) = (f0, g0);
    for _ in 3..62 {
        // All ones where zeta < 0, and where g is odd.
        let mut negative = std::hint::black_box((zeta >> 63) as u64);
        let odd = std::hint::black_box(g & 1).wrapping_neg();
        let (x, y, z) = (
            (f ^ negative).wrapping_sub(negative),
            (u ^ negative).wrapping_sub(negative),
            (v ^ negative).wrapping_sub(negative),
        );
        g = g.wrapping_add(x & odd);
        q = q.wrapping_add(y & odd);
        r = r.wrapping_add(z & odd);
        negative &= odd;
        zeta = (zeta ^ negative as i64).wrapping_sub(1);
        f = f.wrapping_add(g & negative);
        u = u.wrapping_add(q & negative);
        v = v.wrapping_add(r & negative);
        g >>= 1;
        u <<= 1;
        v <<= 1;
    }
    (zeta, Transition { u: u as i64, v: v as i64, q: q as i64, r: r as i64 })
}

/// (d, e) becomes t · (d, e) / 2^62 modulo p, in (-2p, p).
fn update_de(d: &mut Signed62, e: &mut Signed62, t: &Transition, p: &Signed62, inverse_62: u64) {
    let (sd, se) = (d[4] >> 63, e[4] >> 63);
    // Multiples of p that make the results non-negative enough, then exact multiples of 2^62.
    let mut md = (t.u & sd).wrapping_add(t.v & se);
    let mut me = (t.q & sd).wrapping_add(t.r & se);
    let mul = |a: i64, b: i64| i128::from(a) * i128::from(b);
    let mut cd = mul(t.u, d[0]) + mul(t.v, e[0]);
    let mut ce = mul(t.q, d[0]) + mul(t.r, e[0]);
    md -= (inverse_62.wrapping_mul(cd as u64).wrapping_add(md as u64) & LOW_62) as i64;
    me -= (inverse_62.wrapping_mul(ce as u64).wrapping_add(me as u64) & LOW_62) as i64;
    cd += mul(p[0], md);
    ce += mul(p[0], me);
    cd >>= 62;
    ce >>= 62;
    for i in 1..5 {
        cd += mul(t.u, d[i]) + mul(t.v, e[i]) + mul(p[i], md);
        ce += mul(t.q, d[i]) + mul(t.r, e[i]) + mul(p[i], me);
        d[i - 1] = (cd as u64 & LOW_62) as i64;
        e[i - 1] = (ce as u64 & LOW_62) as i64;
        cd >>= 62;
        ce >>= 62;
    }
    d[4] = cd as i64;
    e[4] = ce as i64;
}

/// (f, g) becomes t · (f, g) / 2^62, exactly.
fn update_fg(f: &mut Signed62, g: &mut Signed62, t: &Transition) {
    let mul = |a: i64, b: i64| i128::from(a) * i128::from(b);
    let mut cf = (mul(t.u, f[0]) + mul(t.v, g[0])) >> 62;
    let mut cg = (mul(t.q, f[0]) + mul(t.r, g[0])) >> 62;
    for i in 1..5 {
        cf += mul(t.u, f[i]) + mul(t.v, g[i]);
        cg += mul(t.q, f[i]) + mul(t.r, g[i]);
        f[i - 1] = (cf as u64 & LOW_62) as i64;
        g[i - 1] = (cg as u64 & LOW_62) as i64;
        cf >>= 62;
        cg >>= 62;
    }
    f[4] = cf as i64;
    g[4] = cg as i64;
}

/// `r`, in (-2p, p), negated if `sign` is -1, as the least non-negative representative.
fn normalise(r: Signed62, sign: i64, p: &Signed62) -> [u64; 4] {
    fn carried(mut r: Signed62) -> Signed62 {
        for i in 0..4 {
            r[i + 1] += r[i] >> 62;
            r[i] &= LOW_62 as i64;
        }
        r
    }
    let sum = |r: Signed62, mask: i64| -> Signed62 { std::array::from_fn(|i| r[i] + (p[i] & mask)) };
    let r = sum(r, r[4] >> 63);
    let r = carried(r.map(|limb| (limb ^ sign).wrapping_sub(sign)));
    let r = carried(sum(r, r[4] >> 63)).map(|limb| limb as u64);
    [r[0] | r[1] << 62, r[1] >> 2 | r[2] << 60, r[2] >> 4 | r[3] << 58, r[3] >> 6 | r[4] << 56]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::prime256::Prime;
    use num_bigint::BigUint;

    fn check<F: Prime>() {
        let less = [F::P[0] - 1, F::P[1], F::P[2], F::P[3]];
        let one = [1, 0, 0, 0];
        assert_eq!(invert([0; 4], F::P, F::INVERSE_62), [0; 4]);
        assert_eq!(invert(one, F::P, F::INVERSE_62), one);
        assert_eq!(invert(less, F::P, F::INVERSE_62), less);
        let p = F::P;
        let big = |x: [u64; 4]| x.iter().rev().fold(BigUint::ZERO, |sum, word| (sum << 64) + word);
        let mut x = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 7, 0x7fff_ffff_0000_ffff];
        for _ in 0..200 {
            let y = invert(x, p, F::INVERSE_62);
            assert_eq!(big(x) * big(y) % big(p), BigUint::from(1u8));
            assert_eq!(invert(y, p, F::INVERSE_62), x);
            x = [y[1] ^ x[3], y[0], y[2].rotate_left(7), y[3] >> 1];
        }
    }

    #[test]
    fn twice_is_the_identity() {
        check::<crate::secp256k1::Field>();
        check::<crate::sm2::Field>();
        check::<crate::p256::Field>();
    }
}
