use super::*;
use crate::rgsw::Bit;
use crate::{bfv, bgv};
use vesica_params::rlwe::{CKKS_8192, DIGITS, RLWE_2048, RLWE_4096, RLWE_8192};

fn rng(seed: u8) -> SessionRng {
    SessionRng::from_seed(Zeroizing::new([seed; 32]))
}

/// A small ring for tests of the algebra; it hides nothing.
const SMALL: RlweSet = RlweSet { n: 64, id: "test", ..RLWE_8192 };

#[derive(Clone, Copy, PartialEq, Debug)]
enum View {
    Bfv,
    Bgv,
}

/// A ring with a secret, and what a message is multiplied by modulo each prime.
struct Setting {
    set: RlweSet,
    ring: Rlwe,
    key: Secret,
    view: View,
}

impl Setting {
    fn new(set: RlweSet, limbs: usize, view: View, rng: &mut SessionRng) -> Self {
        let ring = Rlwe::new(&set, limbs, if view == View::Bgv { bgv::step(set.plain) } else { bfv::STEP });
        Self { set, key: ring.secret(rng), ring, view }
    }

    /// Messages modulo t, times unit/divisor, as residues.
    fn message(&self, m: &[u64], divisor: u64) -> Vec<u64> {
        let centred: Vec<i64> = m.iter().map(|&m| bfv::centred(m, self.set.plain)).collect();
        let mut words = self.ring.basis.signed(self.ring.limbs, &centred);
        for (ntt, limb) in self.ring.basis.each(&mut words) {
            let q = ntt.modulus();
            let unit = if self.view == View::Bgv { bgv::UNIT } else { bfv::unit(q, self.set.plain) };
            ntt.scale(limb, q.factor(q.mul(unit, q.inverse(divisor))));
        }
        words
    }

    fn encrypt(&self, m: &[u64], divisor: u64, rng: &mut SessionRng) -> Ciphertext {
        let seed = PublicStream::seed(rng);
        let b = self.ring.encrypt(&self.key, &self.message(m, divisor), &mut PublicStream::new(seed), rng);
        let mut bytes = vec![];
        self.ring.write(&b, &mut bytes);
        self.ring.read_ciphertext(&bytes, &mut PublicStream::new(seed)).unwrap()
    }

    fn keys(&self, leaves: usize, rng: &mut SessionRng) -> Vec<SwitchKey> {
        let exponents = self.ring.expansion_exponents(leaves);
        let key = |g| {
            let seed = PublicStream::seed(rng);
            let mut bytes = vec![];
            for b in self.ring.galois_key(&self.key, g, &mut PublicStream::new(seed), rng) {
                self.ring.write(&b, &mut bytes);
            }
            assert_eq!(bytes.len(), self.ring.key_bytes());
            self.ring.read_key(&bytes, &mut PublicStream::new(seed)).unwrap()
        };
        exponents.into_iter().map(key).collect()
    }

    fn plaintext(&self, m: &[u64]) -> Vec<u64> {
        let centred: Vec<i64> = m.iter().map(|&m| bfv::centred(m, self.set.plain)).collect();
        self.ring.plaintext(&centred)
    }

    /// The message of a ciphertext, and its noise: how far the phase is from the message's place, in the units of BFV. Up to
    /// two primes.
    fn open(&self, ciphertext: &Ciphertext) -> (Vec<u64>, Vec<f64>) {
        let (n, t) = (self.ring.n(), self.set.plain);
        let mut ciphertext = ciphertext.clone();
        if self.view == View::Bgv {
            bgv::to_bfv(&self.ring, &mut ciphertext, t);
        }
        let phase = self.ring.phase(&self.key, &ciphertext);
        let q: Vec<_> = (0..phase.len() / n).map(|i| self.ring.basis.limb(i).modulus()).collect();
        let one = |i: usize| {
            // The Chinese remainder theorem by Garner's formula.
            let (x, modulus) = match q[..] {
                [q] => (u128::from(phase[i]), u128::from(q.p())),
                [q0, q1] => {
                    let inverse = q1.inverse(q0.p() % q1.p());
                    let digit = q1.mul(q1.sub(phase[n + i], phase[i] % q1.p()), inverse);
                    (
                        u128::from(phase[i]) + u128::from(q0.p()) * u128::from(digit),
                        u128::from(q0.p()) * u128::from(q1.p()),
                    )
                }
                _ => panic!("more than two primes"),
            };
            // round(t·x/Q), where t·x has at most 117 bits.
            let t = u128::from(t);
            let m = (t * x + modulus / 2) / modulus;
            let rest = t as i128 * x as i128 - m as i128 * modulus as i128;
            ((m % t) as u64, rest as f64 / t as f64)
        };
        (0..n).map(one).unzip()
    }
}

/// The sum of the products of ciphertexts and plaintexts.
pub fn dot(ring: &Rlwe, ciphertexts: &[Ciphertext], plaintexts: &[Vec<u64>]) -> Ciphertext {
    let mut sum = ring.zero();
    ciphertexts.iter().zip(plaintexts).for_each(|(c, p)| ring.add_product(&mut sum, c, p));
    sum
}

/// The ciphertexts that one is expanded to, by their numbers.
fn expand(ring: &Rlwe, ciphertext: Ciphertext, keys: &[SwitchKey], leaves: usize) -> Vec<Ciphertext> {
    let mut all = vec![None; leaves];
    ring.expand(ciphertext, keys, leaves, |k, leaf| {
        assert!(all[k].is_none(), "leaf {k} came twice");
        all[k] = Some(leaf.clone());
    });
    all.into_iter().map(|leaf| leaf.expect("every leaf comes")).collect()
}

/// Messages that look random.
fn messages(set: &RlweSet, seed: u64) -> Vec<u64> {
    let next = |x: &u64| Some(x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
    std::iter::successors(Some(seed), next).skip(1).map(|x| (x >> 33) % set.plain).take(set.n).collect()
}

/// The product modulo X^n + 1 and t by definition.
fn product(set: &RlweSet, a: &[u64], b: &[u64]) -> Vec<u64> {
    let mut out = vec![0_i128; set.n];
    for (i, &x) in a.iter().enumerate().filter(|(_, x)| **x != 0) {
        for (j, &y) in b.iter().enumerate() {
            let sign = if i + j < set.n { 1 } else { -1 };
            out[(i + j) % set.n] += sign * i128::from(x) * i128::from(y);
        }
    }
    out.into_iter().map(|x| x.rem_euclid(i128::from(set.plain)) as u64).collect()
}

fn deviation(noise: &[f64]) -> f64 {
    (noise.iter().map(|e| e * e).sum::<f64>() / noise.len() as f64).sqrt()
}

/// Within 0.6 bits above, and not absurdly below.
fn close(what: &str, noise: f64, variance: f64) {
    let bits = noise.log2() - variance.sqrt().log2();
    assert!((-2.0..0.6).contains(&bits), "{what}: 2^{:.2} for 2^{:.2}", noise.log2(), variance.log2() / 2.0);
}

#[test]
fn both_views_open_to_what_was_encrypted_added_and_multiplied() {
    for view in [View::Bfv, View::Bgv] {
        for (set, limbs) in [(SMALL, 1), (SMALL, 2), (RLWE_2048, 1), (RLWE_4096, 1)] {
            let rng = &mut rng(1);
            let setting = Setting::new(set, limbs, view, rng);
            let (x, y) = (messages(&set, 1), messages(&set, 2));
            let (cx, cy) = (setting.encrypt(&x, 1, rng), setting.encrypt(&y, 1, rng));
            let (opened, noise) = setting.open(&cx);
            assert_eq!(opened, x);
            close("fresh", deviation(&noise), set.fresh());
            // x·p + y·p.
            let p = messages(&set, 3);
            let plain = setting.plaintext(&p);
            let sum = dot(&setting.ring, &[cx, cy], &[plain.clone(), plain]);
            let (opened, noise) = setting.open(&sum);
            let expected: Vec<u64> = x.iter().zip(&y).map(|(x, y)| (x + y) % set.plain).collect();
            assert_eq!(opened, product(&set, &p, &expected), "{view:?}, {}, {limbs} limbs", set.id);
            let bound = set.products(2, set.fresh(), set.plain as f64 / 2.0);
            close("products", deviation(&noise), bound);
        }
    }
}

/// BFV's ciphertext is -1/t times BGV's, word for word, with the error's sign turned.
#[test]
fn the_views_are_one() {
    let rng = &mut rng(2);
    let bgv = Setting::new(SMALL, 2, View::Bgv, rng);
    let x = messages(&SMALL, 1);
    let mut ciphertext = bgv.encrypt(&x, 1, rng);
    bgv::to_bfv(&bgv.ring, &mut ciphertext, SMALL.plain);
    let bfv = Setting {
        view: View::Bfv,
        key: Secret { values: bgv.key.values.clone() },
        ..Setting::new(SMALL, 2, View::Bfv, rng)
    };
    let (opened, noise) = bfv.open(&ciphertext);
    assert_eq!(opened, x);
    assert!(noise.iter().all(|e| e.abs() <= 21.5));
}

#[test]
fn expansion_gives_every_coefficient_its_ciphertext() {
    for view in [View::Bfv, View::Bgv] {
        for limbs in [1, 2] {
            for leaves in [1, 2, 3, 5, 8, 33, 64] {
                let rng = &mut rng(leaves as u8);
                let setting = Setting::new(SMALL, limbs, view, rng);
                let mut m = messages(&SMALL, 5);
                m[leaves..].fill(0);
                let keys = setting.keys(leaves, rng);
                let query = setting.encrypt(&m, leaves.next_power_of_two() as u64, rng);
                let expanded = expand(&setting.ring, query, &keys, leaves);
                assert_eq!(expanded.len(), leaves);
                for (i, leaf) in expanded.iter().enumerate() {
                    let (opened, _) = setting.open(leaf);
                    assert_eq!(opened[0], m[i], "{view:?}, {limbs} limbs, leaf {i} of {leaves}");
                    assert!(opened[1..].iter().all(|&x| x == 0));
                }
            }
        }
    }
}

/// At full size: the noise of the leaves, of a sum of products with a table, and of the answer, against the bounds.
#[test]
fn noise_of_an_expanded_query_is_within_its_bound() {
    let (set, leaves) = (RLWE_4096, 20);
    for view in [View::Bfv, View::Bgv] {
        let rng = &mut rng(3);
        let setting = Setting::new(set, 1, view, rng);
        let keys = setting.keys(leaves, rng);
        let mut one = vec![0; set.n];
        one[17] = 1;
        let query = setting.encrypt(&one, 32, rng);
        let expanded = expand(&setting.ring, query, &keys, leaves);
        let noise: Vec<f64> = expanded.iter().flat_map(|leaf| setting.open(leaf).1).collect();
        close("leaves", deviation(&noise), set.expanded(1, leaves));
        // A table that looks random has the noise of the mean.
        let random: Vec<Vec<u64>> = (0..leaves).map(|k| messages(&set, k as u64)).collect();
        let table: Vec<Vec<u64>> = random.iter().map(|m| setting.plaintext(m)).collect();
        let (opened, noise) = setting.open(&dot(&setting.ring, &expanded, &table));
        assert_eq!(opened, random[17]);
        let largest = set.plain as f64 / 2.0;
        close("products", deviation(&noise), set.products(leaves, set.expanded(1, leaves), largest));
        // A table of one number has more, which the bound for all tables covers.
        let worst = vec![set.plain / 2; set.n];
        let table: Vec<Vec<u64>> = (0..leaves).map(|_| setting.plaintext(&worst)).collect();
        let mut answer = dot(&setting.ring, &expanded, &table);
        let (opened, noise) = setting.open(&answer);
        assert_eq!(opened, worst);
        let bound = set.products(leaves, set.expanded_at_worst(1, leaves), largest);
        assert!(deviation(&noise) < bound.sqrt(), "{:.2} above the bound", deviation(&noise) / bound.sqrt());
        // As it travels.
        if view == View::Bgv {
            bgv::to_bfv(&setting.ring, &mut answer, set.plain);
        }
        let [b_bits, a_bits] = set.answer_bits;
        let (mut b, mut a) = (vec![], vec![]);
        setting.ring.shorten(answer.b, b_bits, set.n, &mut b);
        setting.ring.shorten(answer.a, a_bits, set.n, &mut a);
        let [b, a] = [(&b, b_bits), (&a, a_bits)].map(|(packed, bits)| unpack(packed, bits, set.n).collect::<Vec<_>>());
        let phase = setting.ring.short_phase(&setting.key, &b, &a, set.answer_bits);
        assert!(phase.iter().all(|&p| bfv::decode(p, a_bits, set.plain) == set.plain / 2));
    }
}

/// A bit out of an expanded query chooses between two ciphertexts, over and over, and the noise is that of the bound.
#[test]
fn an_encrypted_bit_chooses() {
    for view in [View::Bfv, View::Bgv] {
        for bit in [0, 1] {
            let (rng, set, leaves) = (&mut rng(7), RLWE_4096, 8);
            let setting = Setting::new(set, 1, view, rng);
            let ring = &setting.ring;
            let q = ring.basis.limb(0).modulus();
            // The query holds bit·2^(10r)/8 at coefficient r, without the factor Q/t.
            let mut message = vec![0; set.n];
            (0..DIGITS).for_each(|r| message[r] = bit * q.mul(1 << (10 * r), q.inverse(8)));
            let (keys, seed) = (setting.keys(leaves, rng), PublicStream::seed(rng));
            let b = ring.encrypt(&setting.key, &message, &mut PublicStream::new(seed), rng);
            let query = Ciphertext { b, a: ring.uniform(1, &mut PublicStream::new(seed)) };
            let expanded = expand(ring, query, &keys, leaves);
            let mut bytes = vec![];
            let key = ring.square_key(&setting.key, &mut PublicStream::new(seed), rng);
            key.iter().for_each(|b| ring.write(b, &mut bytes));
            let square = ring.read_key(&bytes, &mut PublicStream::new(seed)).unwrap();
            let chooser = Bit::new(ring, &expanded[..DIGITS], &square);
            let (x, y) = (messages(&set, 1), messages(&set, 2));
            let wanted = if bit == 0 { &x } else { &y };
            let mut held = setting.encrypt(&x, 1, rng);
            for times in 1..=3 {
                let (zero, one) = if times == 1 || bit == 0 {
                    (held.clone(), setting.encrypt(&y, 1, rng))
                } else {
                    (setting.encrypt(&x, 1, rng), held.clone())
                };
                held = chooser.choose(ring, vec![zero, one]).remove(0);
                let (opened, noise) = setting.open(&held);
                assert_eq!(&opened, wanted, "{view:?}, bit {bit}, {times} times");
                close("choices", deviation(&noise), times as f64 * set.choice(set.expanded(1, leaves)));
            }
        }
    }
}

#[test]
fn switching_down_keeps_the_message() {
    for view in [View::Bfv, View::Bgv] {
        let rng = &mut rng(4);
        let setting = Setting::new(RLWE_8192, 3, view, rng);
        let x = messages(&RLWE_8192, 1);
        let mut ciphertext = setting.encrypt(&x, 1, rng);
        setting.ring.switch_to_one(&mut ciphertext);
        let (opened, noise) = setting.open(&ciphertext);
        assert_eq!(opened, x);
        close("switched", deviation(&noise), RLWE_8192.rounding());
    }
}

/// With so few bits of the answer that it often fails: it fails as the normal distribution says, which is less than the bound.
#[test]
fn cut_answers_fail_within_the_bound() {
    let set = RlweSet { answer_bits: [18, 22], ..RLWE_2048 };
    let rng = &mut rng(8);
    let setting = Setting::new(set, 1, View::Bfv, rng);
    let (x, mut wrong, mut all) = (messages(&set, 1), 0, 0);
    for _ in 0..20 {
        let fresh = setting.encrypt(&x, 1, rng);
        let (mut b, mut a) = (vec![], vec![]);
        setting.ring.shorten(fresh.b, 18, set.n, &mut b);
        setting.ring.shorten(fresh.a, 22, set.n, &mut a);
        let [b, a] = [(&b, 18), (&a, 22)].map(|(packed, bits)| unpack(packed, bits, set.n).collect::<Vec<_>>());
        let phase = setting.ring.short_phase(&setting.key, &b, &a, set.answer_bits);
        wrong += phase.iter().zip(&x).filter(|&(&p, &m)| bfv::decode(p, 22, set.plain) != m).count();
        all += set.n;
    }
    let rate = wrong as f64 / all as f64;
    let bound = set.failure(1, set.fresh(), 1).exp2();
    // 32 is 2.75 standard deviations of 11.6, beyond which are 0.6 % of a normal distribution; the bound says 4.6 %.
    assert!((0.04..0.05).contains(&bound), "{bound}");
    assert!((0.003..0.012).contains(&rate), "{rate}");
}

#[test]
fn hostile_polynomials_are_refused() {
    let ring = Rlwe::new(&RLWE_2048, 1, 1);
    let good = vec![0; ring.bytes(1)];
    assert!(ring.read(1, &good).is_ok());
    for bytes in [&good[1..], &[&good[..], &[0]].concat(), &[]] {
        assert_eq!(ring.read(1, bytes), Err(HeError::Length { got: bytes.len(), expected: good.len() }));
    }
    let p = RLWE_2048.primes[0];
    for (word, fine) in [(p - 1, true), (p, false), ((1 << 50) - 1, false)] {
        let mut words = vec![0; 2048];
        words[2047] = word;
        let mut bytes = vec![];
        ring.write(&words, &mut bytes);
        assert_eq!(ring.read(1, &bytes).is_ok(), fine, "{word}");
    }
}

#[test]
fn secrets_and_errors_are_fresh() {
    let rng = &mut rng(5);
    let setting = Setting::new(SMALL, 1, View::Bfv, rng);
    assert_ne!(setting.ring.secret(rng).values, setting.key.values);
    let x = messages(&SMALL, 1);
    let (one, two) = (setting.encrypt(&x, 1, rng), setting.encrypt(&x, 1, rng));
    assert!(one.a != two.a && one.b != two.b);
    assert_ne!(setting.open(&one).1, setting.open(&two).1);
}

/// A set for CKKS has no t; its ring works like the others.
#[test]
fn three_primes_and_no_plaintext_modulus() {
    let ring = Rlwe::new(&CKKS_8192, 2, 1);
    let rng = &mut rng(6);
    let key = ring.secret(rng);
    let message: Vec<i64> = (0..8192).map(|i| i << 30).collect();
    let seed = PublicStream::seed(rng);
    let b = ring.encrypt(&key, &ring.basis.signed(2, &message), &mut PublicStream::new(seed), rng);
    let a = ring.uniform(2, &mut PublicStream::new(seed));
    let phase = ring.phase(&key, &Ciphertext { b, a });
    for (x, m) in phase[..8192].iter().zip(message) {
        assert!(
            (*x as i64 - m)
                .rem_euclid(CKKS_8192.primes[0] as i64)
                .min((m - *x as i64).rem_euclid(CKKS_8192.primes[0] as i64))
                <= 21
        );
    }
}
