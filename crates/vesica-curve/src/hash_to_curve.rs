//! `expand_message_xmd` of RFC 9380, section 5.3.1, for a whole batch of inputs: one message a lane.

use crate::Dst;
use crate::field::{Formula, Lanes};
use vesica_types::Digest;

/// The round constants of SHA-512 (FIPS 180-4, section 4.2.3): the fractions of the cube roots of the first 80 primes.
const ROUND: [u64; 80] = [
    0x428a_2f98_d728_ae22,
    0x7137_4491_23ef_65cd,
    0xb5c0_fbcf_ec4d_3b2f,
    0xe9b5_dba5_8189_dbbc,
    0x3956_c25b_f348_b538,
    0x59f1_11f1_b605_d019,
    0x923f_82a4_af19_4f9b,
    0xab1c_5ed5_da6d_8118,
    0xd807_aa98_a303_0242,
    0x1283_5b01_4570_6fbe,
    0x2431_85be_4ee4_b28c,
    0x550c_7dc3_d5ff_b4e2,
    0x72be_5d74_f27b_896f,
    0x80de_b1fe_3b16_96b1,
    0x9bdc_06a7_25c7_1235,
    0xc19b_f174_cf69_2694,
    0xe49b_69c1_9ef1_4ad2,
    0xefbe_4786_384f_25e3,
    0x0fc1_9dc6_8b8c_d5b5,
    0x240c_a1cc_77ac_9c65,
    0x2de9_2c6f_592b_0275,
    0x4a74_84aa_6ea6_e483,
    0x5cb0_a9dc_bd41_fbd4,
    0x76f9_88da_8311_53b5,
    0x983e_5152_ee66_dfab,
    0xa831_c66d_2db4_3210,
    0xb003_27c8_98fb_213f,
    0xbf59_7fc7_beef_0ee4,
    0xc6e0_0bf3_3da8_8fc2,
    0xd5a7_9147_930a_a725,
    0x06ca_6351_e003_826f,
    0x1429_2967_0a0e_6e70,
    0x27b7_0a85_46d2_2ffc,
    0x2e1b_2138_5c26_c926,
    0x4d2c_6dfc_5ac4_2aed,
    0x5338_0d13_9d95_b3df,
    0x650a_7354_8baf_63de,
    0x766a_0abb_3c77_b2a8,
    0x81c2_c92e_47ed_aee6,
    0x9272_2c85_1482_353b,
    0xa2bf_e8a1_4cf1_0364,
    0xa81a_664b_bc42_3001,
    0xc24b_8b70_d0f8_9791,
    0xc76c_51a3_0654_be30,
    0xd192_e819_d6ef_5218,
    0xd699_0624_5565_a910,
    0xf40e_3585_5771_202a,
    0x106a_a070_32bb_d1b8,
    0x19a4_c116_b8d2_d0c8,
    0x1e37_6c08_5141_ab53,
    0x2748_774c_df8e_eb99,
    0x34b0_bcb5_e19b_48a8,
    0x391c_0cb3_c5c9_5a63,
    0x4ed8_aa4a_e341_8acb,
    0x5b9c_ca4f_7763_e373,
    0x682e_6ff3_d6b2_b8a3,
    0x748f_82ee_5def_b2fc,
    0x78a5_636f_4317_2f60,
    0x84c8_7814_a1f0_ab72,
    0x8cc7_0208_1a64_39ec,
    0x90be_fffa_2363_1e28,
    0xa450_6ceb_de82_bde9,
    0xbef9_a3f7_b2c6_7915,
    0xc671_78f2_e372_532b,
    0xca27_3ece_ea26_619c,
    0xd186_b8c7_21c0_c207,
    0xeada_7dd6_cde0_eb1e,
    0xf57d_4f7f_ee6e_d178,
    0x06f0_67aa_7217_6fba,
    0x0a63_7dc5_a2c8_98a6,
    0x113f_9804_bef9_0dae,
    0x1b71_0b35_131c_471b,
    0x28db_77f5_2304_7d84,
    0x32ca_ab7b_40c7_2493,
    0x3c9e_be0a_15c9_bebc,
    0x431d_67c4_9c10_0d4c,
    0x4cc5_d4be_cb3e_42b6,
    0x597f_299c_fc65_7e2a,
    0x5fcb_6fab_3ad6_faec,
    0x6c44_198c_4a47_5817,
];

/// The initial value of SHA-512 (section 5.3.5): the fractions of the square roots of the first 8 primes.
const INITIAL: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// One round of SHA-512, in place of a loop that the compiler might not unroll: then `w` and the working variables would
/// not stay in registers.
macro_rules! round {
    ($v:ident, $w:ident, $k:expr, $t:literal) => {
        let [a, b, c, d, e, f, g, h] = $v;
        let s1 = e.rotr(14).xor(e.rotr(18)).xor(e.rotr(41));
        let t1 = h.add(s1).add(e.choose(f, g)).add(V::splat($k[$t])).add($w[$t]);
        let s0 = a.rotr(28).xor(a.rotr(34)).xor(a.rotr(39));
        // The majority: where a and b differ it is c, elsewhere it is theirs.
        let t2 = s0.add(a.xor(b).choose(c, b));
        $v = [t1.add(t2), a, b, c, d.add(t1), e, f, g];
    };
}

/// One step of the message schedule.
macro_rules! schedule {
    ($w:ident, $t:literal) => {
        let (w15, w2) = ($w[($t + 1) % 16], $w[($t + 14) % 16]);
        let s0 = w15.rotr(1).xor(w15.rotr(8)).xor(w15.shr(7));
        let s1 = w2.rotr(19).xor(w2.rotr(61)).xor(w2.shr(6));
        $w[$t] = $w[$t].add(s0).add($w[($t + 9) % 16]).add(s1);
    };
}

macro_rules! sixteen {
    ($name:ident ! $($arg:tt),*) => {
        $name!($($arg),*, 0);
        $name!($($arg),*, 1);
        $name!($($arg),*, 2);
        $name!($($arg),*, 3);
        $name!($($arg),*, 4);
        $name!($($arg),*, 5);
        $name!($($arg),*, 6);
        $name!($($arg),*, 7);
        $name!($($arg),*, 8);
        $name!($($arg),*, 9);
        $name!($($arg),*, 10);
        $name!($($arg),*, 11);
        $name!($($arg),*, 12);
        $name!($($arg),*, 13);
        $name!($($arg),*, 14);
        $name!($($arg),*, 15);
    };
}

/// The compression function of SHA-512 (FIPS 180-4, section 6.4.2), a message block a lane.
struct Compress<V>([V; 8], [V; 16]);

impl<V: Lanes> Formula<V> for Compress<V> {
    type Out = [V; 8];
    #[inline(always)]
    fn run(self) -> [V; 8] {
        let Compress(mut state, mut w) = self;
        let mut v = state;
        for (sixteen, k) in ROUND.as_chunks::<16>().0.iter().enumerate() {
            if sixteen > 0 {
                sixteen!(schedule ! w);
            }
            sixteen!(round ! v, w, k);
        }
        for i in 0..8 {
            state[i] = state[i].add(v[i]);
        }
        state
    }
}

/// The inputs of a hash: byte strings of one length.
#[derive(Clone, Copy)]
pub(crate) enum Inputs<'a> {
    Digests(&'a [Digest]),
    /// Strings of so many bytes each, one after the other.
    Bytes(&'a [u8], usize),
}

impl Inputs<'_> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Inputs::Digests(digests) => digests.len(),
            Inputs::Bytes(bytes, each) => bytes.len() / each,
        }
    }

    /// Bytes of each.
    pub(crate) fn each(&self) -> usize {
        match self {
            Inputs::Digests(_) => Digest::BYTES,
            Inputs::Bytes(_, each) => *each,
        }
    }

    /// One of them.
    pub(crate) fn at(&self, index: usize) -> &[u8] {
        match self {
            Inputs::Digests(digests) => &digests[index].0,
            Inputs::Bytes(bytes, each) => &bytes[index * each..][..*each],
        }
    }
}

/// `expand_message_xmd` with SHA-512 on inputs of one length, an input a lane.
///
/// Of every message that is hashed, all but the first words (of the input, or of a previous hash) are the same for all lanes,
/// so they are laid out once.
pub(crate) struct Expander<'a, V> {
    inputs: Inputs<'a>,
    /// The state after the block of zeros.
    zeros: [V; 8],
    /// The words of the message that the input starts, with zeros in its place.
    first: Vec<u64>,
    /// The words after `b0 ^ b_(i-1)`, for i = 1, 2.
    next: [Vec<u64>; 2],
}

impl<'a, V: Lanes> Expander<'a, V> {
    /// For outputs of `len` bytes, up to 128.
    #[inline(always)]
    pub(crate) fn new(dst: &Dst, inputs: Inputs<'a>, len: u8) -> Self {
        assert!(len <= 128, "two hashes at most");
        let zeros = V::call(Compress(splat(INITIAL), [V::zero(); 16]));
        let first = padded(&[&vec![0; inputs.each()], &[0, len, 0], dst.prime()], 0, 128);
        let next = [1, 2].map(|i| padded(&[&[i], dst.prime()], 64, 0));
        Self { inputs, zeros, first, next }
    }

    /// The words `b_1` and, if `len > 64`, `b_2`, in big-endian order, of the inputs from `start` on. Past the last one, any.
    #[inline(always)]
    pub(crate) fn expand<const BLOCKS: usize>(&self, start: usize) -> [[V; 8]; BLOCKS] {
        let b0 = self.absorb_inputs(start);
        let mut out = [[V::zero(); 8]; BLOCKS];
        let mut words = b0;
        for i in 0..BLOCKS {
            out[i] = absorb(splat(INITIAL), &words, &self.next[i]);
            for j in 0..8 {
                words[j] = b0[j].xor(out[i][j]);
            }
        }
        out
    }

    /// The state after the message that the inputs from `start` on begin.
    #[inline(always)]
    fn absorb_inputs(&self, start: usize) -> [V; 8] {
        let Self { inputs, zeros, first, .. } = self;
        let (mut state, mut block) = (*zeros, [V::zero(); 16]);
        for (i, same) in first.iter().enumerate() {
            block[i % 16] = V::splat(*same);
            if 8 * i < inputs.each() {
                let mut own = [0; 8];
                for (lane, word) in own.iter_mut().enumerate().take(V::WIDTH.min(inputs.len().saturating_sub(start))) {
                    let rest = &inputs.at(start + lane)[8 * i..];
                    let mut bytes = [0; 8];
                    bytes[..rest.len().min(8)].copy_from_slice(&rest[..rest.len().min(8)]);
                    *word = u64::from_be_bytes(bytes);
                }
                block[i % 16] = block[i % 16].or(V::load(&own));
            }
            if i % 16 == 15 {
                state = V::call(Compress(state, block));
            }
        }
        state
    }
}

#[inline(always)]
fn splat<V: Lanes>(words: [u64; 8]) -> [V; 8] {
    let mut out = [V::zero(); 8];
    for i in 0..8 {
        out[i] = V::splat(words[i]);
    }
    out
}

/// Hashes the words that differ by lane, then those that do not.
#[inline(always)]
fn absorb<V: Lanes>(mut state: [V; 8], own: &[V], same: &[u64]) -> [V; 8] {
    let mut block = [V::zero(); 16];
    for i in 0..own.len() + same.len() {
        block[i % 16] = if i < own.len() { own[i] } else { V::splat(same[i - own.len()]) };
        if i % 16 == 15 {
            state = V::call(Compress(state, block));
        }
    }
    state
}

/// A message's end as big-endian words, with the padding of FIPS 180-4, section 5.1.2: it comes after `own` bytes in the
/// same block, a multiple of eight, and `before` in earlier ones.
fn padded(parts: &[&[u8]], own: usize, before: usize) -> Vec<u64> {
    let mut bytes = parts.concat();
    let bits = 8 * (before + own + bytes.len()) as u64;
    bytes.push(0x80);
    while (own + bytes.len()) % 128 != 120 {
        bytes.push(0);
    }
    // The length is a 128-bit number, of which the upper half is zero: the loop above put zeros there, unless the marker
    // 0x80 stands in it.
    if bytes[bytes.len() - 8..].iter().any(|&byte| byte != 0) {
        bytes.extend([0; 128]);
    }
    bytes.extend(bits.to_be_bytes());
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_be_bytes(*word)).collect()
}

/// `expand_message_xmd(message, DST, len)` with any hash of the Merkle-Damgard kind, one message at a time: what a scalar is
/// hashed by, and the specification of the batches. The message is in parts.
///
/// # Panics
/// If `len` is more than 255 times the hash's output.
pub(crate) fn expand_message_xmd<H>(message: &[&[u8]], dst: &Dst, len: usize) -> Vec<u8>
where
    H: sha2::Digest + sha2::digest::block_api::BlockSizeUser,
{
    let blocks = len.div_ceil(<H as sha2::Digest>::output_size());
    assert!(blocks <= 255, "expand_message_xmd: the output is too long");
    let mut first = H::new().chain_update(vec![0; H::block_size()]);
    for part in message {
        first.update(part);
    }
    let b0 = first.chain_update((len as u16).to_be_bytes()).chain_update([0]).chain_update(dst.prime()).finalize();
    let mut block = vec![0; b0.len()];
    let mut out = Vec::with_capacity(blocks * block.len());
    for i in 1..=blocks {
        for (byte, first) in block.iter_mut().zip(&b0) {
            *byte ^= first;
        }
        let next = H::new().chain_update(&block).chain_update([i as u8]).chain_update(dst.prime()).finalize();
        out.extend_from_slice(&next);
        block.copy_from_slice(&next);
    }
    out.truncate(len);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{self, Kernel};
    use vesica_cpu::Backend;

    #[test]
    fn expand_message_xmd_follows_rfc_9380() {
        let text = include_str!("../../../vectors/rfc/rfc9380_expand_sha512.json");
        let file: serde_json::Value = serde_json::from_str(text).unwrap();
        let dst = Dst::new(file["dst"].as_str().unwrap().as_bytes());
        for vector in file["vectors"].as_array().unwrap() {
            let message = vector["msg"].as_str().unwrap().as_bytes();
            let len = usize::from_str_radix(&vector["len_in_bytes"].as_str().unwrap()[2..], 16).unwrap();
            let out = expand_message_xmd::<sha2::Sha512>(&[message], &dst, len);
            let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, vector["uniform_bytes"].as_str().unwrap());
        }
    }

    struct Expand<'a>(&'a Dst, Inputs<'a>, u8);

    impl Kernel for Expand<'_> {
        type Out = Vec<Vec<u8>>;
        #[inline(always)]
        fn run<V: Lanes>(self) -> Vec<Vec<u8>> {
            let Expand(dst, inputs, len) = self;
            let expander = Expander::<V>::new(dst, inputs, len);
            let mut out = Vec::new();
            for start in (0..inputs.len()).step_by(V::WIDTH) {
                let blocks: [[V; 8]; 2] = expander.expand(start);
                let mut bytes = vec![Vec::new(); V::WIDTH.min(inputs.len() - start)];
                for word in blocks.as_flattened() {
                    let mut lanes = [0; 8];
                    word.store(&mut lanes);
                    for (bytes, word) in bytes.iter_mut().zip(lanes) {
                        bytes.extend(word.to_be_bytes());
                    }
                }
                out.extend(bytes.into_iter().map(|mut bytes| {
                    bytes.truncate(len.into());
                    bytes
                }));
            }
            out
        }
    }

    #[test]
    fn lanes_expand_as_the_specification_does() {
        let digests: Vec<Digest> = (0..11).map(|i| Digest([i; 16])).collect();
        let bytes: Vec<u8> = (0..11 * 200).map(|i| (i % 251) as u8).collect();
        // Tags whose messages end before, in and after the last words of a block.
        for tag in [1, 31, 41, 45, 46, 47, 48, 55, 60, 76, 91, 92, 93, 100, 108, 109, 150, 173, 174, 175, 255] {
            let dst = Dst::new(&vec![b'x'; tag]);
            let strings = [1, 8, 17, 31, 32, 64, 127, 128, 200].map(|each| Inputs::Bytes(&bytes[..11 * each], each));
            for inputs in [&[Inputs::Digests(&digests)][..], &strings].concat() {
                for backend in Backend::available() {
                    for len in [96, 128] {
                        let got = backend::run_on(backend, Expand(&dst, inputs, len));
                        assert_eq!(got.len(), 11);
                        for (i, got) in got.into_iter().enumerate() {
                            let want = expand_message_xmd::<sha2::Sha512>(&[inputs.at(i)], &dst, len.into());
                            assert_eq!(got, want, "{backend}, tag of {tag} bytes, inputs of {}", inputs.each());
                        }
                    }
                }
            }
        }
    }
}
