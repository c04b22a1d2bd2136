//! A panel of bytes times vectors of words: `crate::matrix` says how a panel lies in memory.
//!
//! All back ends share one plan. A panel is cut into blocks that fit the first-level cache, and each vector of the batch passes over a
//! block before the next block is begun, so memory is read once for all vectors. While the passes of a block run, each asks for its part of
//! the next block. What the back ends differ in is one [`Pass`].

use crate::matrix::{Line, PANEL};
#[cfg(target_arch = "aarch64")]
use std::arch::is_aarch64_feature_detected;
use vesica_cpu::Backend;

/// Groups of a block: 16 KiB of bytes, and 1 KiB of each vector.
const BLOCK: usize = 64;

/// How far ahead of a single vector's pass memory is asked for.
const AHEAD: usize = 4096;

/// What a back end does.
trait Pass {
    /// Four words of a vector as the passes want them.
    fn prepare(words: [u32; 4]) -> [u32; 4];

    /// Adds the products of a block with its part of a prepared vector to the sums of the panel's rows. With each group, `LINES` lines
    /// of memory are asked for, from `next` on.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn pass<const LINES: usize>(
        block: &[[Line; 4]],
        vector: &[[u32; 4]],
        next: *const u8,
        sums: &mut [u32; PANEL],
    );
}

/// Multiplies panels of `panel` groups each with some vectors.
///
/// # Panics
/// If this CPU does not have the back end.
pub(crate) fn multiply(backend: Backend, groups: &[[Line; 4]], panel: usize, vectors: &[&[u32]]) -> Vec<Vec<u32>> {
    // This is the check that all `unsafe` of this file rests on: a `Pass` runs only underneath this function.
    assert!(backend.is_available(), "the back end {backend} is not available on this CPU");
    match backend {
        #[cfg(target_arch = "x86_64")]
        Backend::Ifma => panels::<x86::Vnni>(groups, panel, vectors),
        #[cfg(target_arch = "x86_64")]
        Backend::Avx2 => panels::<x86::Avx2>(groups, panel, vectors),
        #[cfg(target_arch = "aarch64")]
        Backend::Neon if is_aarch64_feature_detected!("dotprod") => panels::<arm::Sdot>(groups, panel, vectors),
        _ => panels::<Portable>(groups, panel, vectors),
    }
}

fn panels<P: Pass>(groups: &[[Line; 4]], panel: usize, vectors: &[&[u32]]) -> Vec<Vec<u32>> {
    let prepared: Vec<Vec<[u32; 4]>> =
        vectors.iter().map(|vector| vector.as_chunks().0.iter().map(|&words| P::prepare(words)).collect()).collect();
    let mut products = vec![Vec::with_capacity(groups.len() / panel * PANEL); vectors.len()];
    for panel in groups.chunks_exact(panel) {
        let mut sums = vec![[0; PANEL]; vectors.len()];
        for (b, block) in panel.chunks(BLOCK).enumerate() {
            let after: *const u8 = block.as_ptr_range().end.cast();
            for (v, (vector, sums)) in prepared.iter().zip(&mut sums).enumerate() {
                let vector = &vector[b * BLOCK..][..block.len()];
                // Together the passes ask for the whole of the next block.
                let part = |lines: usize| after.wrapping_add(v * lines * 64 * BLOCK);
                // SAFETY: the only caller has checked that the CPU has the instructions.
                unsafe {
                    match vectors.len() {
                        1 => P::pass::<4>(block, vector, block.as_ptr().cast::<u8>().wrapping_add(AHEAD), sums),
                        2 | 3 => P::pass::<2>(block, vector, part(2), sums),
                        _ => P::pass::<1>(block, vector, part(1), sums),
                    }
                }
            }
        }
        products.iter_mut().zip(sums).for_each(|(product, sums)| product.extend(sums));
    }
    products
}

/// Exclusive or of all words.
///
/// # Panics
/// If this CPU does not have the back end.
pub(crate) fn read_all(backend: Backend, groups: &[[Line; 4]]) -> u64 {
    assert!(backend.is_available(), "the back end {backend} is not available on this CPU");
    match backend {
        // SAFETY: AVX-512 F is part of the back end, which was checked.
        #[cfg(target_arch = "x86_64")]
        Backend::Ifma => unsafe { x86::read_all(groups) },
        _ => groups
            .as_flattened()
            .iter()
            .fold(0, |sum, line| line.0.as_chunks().0.iter().fold(sum, |sum, &word| sum ^ u64::from_le_bytes(word))),
    }
}

/// Plain Rust: the specification of the others.
struct Portable;

impl Pass for Portable {
    fn prepare(words: [u32; 4]) -> [u32; 4] {
        words
    }

    unsafe fn pass<const LINES: usize>(
        block: &[[Line; 4]],
        vector: &[[u32; 4]],
        _: *const u8,
        sums: &mut [u32; PANEL],
    ) {
        for (group, words) in block.iter().zip(vector) {
            for (tile, sums) in group.iter().zip(sums.as_chunks_mut::<16>().0) {
                for (bytes, sum) in tile.0.as_chunks::<4>().0.iter().zip(sums) {
                    for (byte, word) in bytes.iter().zip(words) {
                        *sum = sum.wrapping_add((*byte as i8 as u32).wrapping_mul(*word));
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Line, PANEL, Pass};
    use std::arch::x86_64::*;

    /// Asks for lines of memory. They may lie behind the end of the matrix, for asking never faults.
    #[inline(always)]
    fn ask<const LINES: usize>(next: *const u8, i: usize) {
        for line in 0..LINES {
            // SAFETY: SSE is part of every x86-64 CPU, and a prefetch of any address is harmless.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(64 * (i * LINES + line)).cast()) }
        }
    }

    /// AVX-512 VNNI: `vpdpbusd` multiplies four unsigned bytes with four signed ones in each lane and adds all products to the lane,
    /// without saturation. The unsigned bytes are one byte of each of four words of the vector (a *plane*), the signed ones are the
    /// matrix. The sums of the four planes are put together modulo 2^32 at the end; that they wrap is what is wanted.
    pub(super) struct Vnni;

    impl Pass for Vnni {
        /// Plane p is byte p of each of the four words.
        fn prepare(words: [u32; 4]) -> [u32; 4] {
            std::array::from_fn(|p| u32::from_le_bytes(words.map(|word| word.to_le_bytes()[p])))
        }

        #[target_feature(enable = "avx512f,avx512vnni")]
        unsafe fn pass<const LINES: usize>(
            block: &[[Line; 4]],
            vector: &[[u32; 4]],
            next: *const u8,
            sums: &mut [u32; PANEL],
        ) {
            // SAFETY: a line is 64 bytes that begin at a multiple of 64.
            let load = |line: &Line| unsafe { _mm512_load_si512((&raw const line.0).cast()) };
            let mut acc = [[_mm512_setzero_si512(); 4]; 4];
            for (i, (group, planes)) in block.iter().zip(vector).enumerate() {
                ask::<LINES>(next, i);
                let [p0, p1, p2, p3] = *planes;
                let (p0, p1) = (_mm512_set1_epi32(p0 as i32), _mm512_set1_epi32(p1 as i32));
                let (p2, p3) = (_mm512_set1_epi32(p2 as i32), _mm512_set1_epi32(p3 as i32));
                for (acc, line) in acc.iter_mut().zip(group) {
                    let bytes = load(line);
                    acc[0] = _mm512_dpbusd_epi32(acc[0], p0, bytes);
                    acc[1] = _mm512_dpbusd_epi32(acc[1], p1, bytes);
                    acc[2] = _mm512_dpbusd_epi32(acc[2], p2, bytes);
                    acc[3] = _mm512_dpbusd_epi32(acc[3], p3, bytes);
                }
            }
            for (sums, [a0, a1, a2, a3]) in sums.as_chunks_mut::<16>().0.iter_mut().zip(acc) {
                let high = _mm512_add_epi32(_mm512_slli_epi32::<16>(a2), _mm512_slli_epi32::<24>(a3));
                let low = _mm512_add_epi32(a0, _mm512_slli_epi32::<8>(a1));
                // SAFETY: the pointer is to sixteen words.
                let old = unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) };
                let sum = _mm512_add_epi32(old, _mm512_add_epi32(low, high));
                // SAFETY: the pointer is to sixteen words, borrowed mutably.
                unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), sum) };
            }
        }
    }

    /// AVX2 has no such product for bytes, but one for pairs of 16-bit numbers. A word of the vector is written as w0 + 2^16·w1 with
    /// both parts from -2^15 to 2^15 - 1, and the bytes are widened to 16 bits: columns 0 and 2 of a row together, and 1 and 3.
    pub(super) struct Avx2;

    impl Pass for Avx2 {
        /// The low parts for columns 0 and 2, those for 1 and 3, and the high parts in the same order.
        fn prepare(words: [u32; 4]) -> [u32; 4] {
            let low = words.map(|word| word & 0xffff);
            // The low part counts as negative from 2^15 on; the high part makes up for it.
            let high = words.map(|word| word.wrapping_add(0x8000) >> 16);
            [low[0] | low[2] << 16, low[1] | low[3] << 16, high[0] | high[2] << 16, high[1] | high[3] << 16]
        }

        #[target_feature(enable = "avx2")]
        unsafe fn pass<const LINES: usize>(
            block: &[[Line; 4]],
            vector: &[[u32; 4]],
            next: *const u8,
            sums: &mut [u32; PANEL],
        ) {
            // Eight rows at a time: eight sweeps over the block, which is in the first-level cache.
            for (part, sums) in sums.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let (mut low, mut high) = (_mm256_setzero_si256(), _mm256_setzero_si256());
                for (i, (group, words)) in block.iter().zip(vector).enumerate() {
                    if part == 0 {
                        ask::<LINES>(next, i);
                    }
                    let bytes = &group[part / 2].0.as_chunks::<32>().0[part % 2];
                    // SAFETY: the pointer is to 32 bytes.
                    let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
                    let even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes));
                    let odd = _mm256_srai_epi16::<8>(bytes);
                    // Products are at most 2^22, so a pair's sum does not saturate.
                    low = _mm256_add_epi32(low, _mm256_madd_epi16(even, _mm256_set1_epi32(words[0] as i32)));
                    low = _mm256_add_epi32(low, _mm256_madd_epi16(odd, _mm256_set1_epi32(words[1] as i32)));
                    high = _mm256_add_epi32(high, _mm256_madd_epi16(even, _mm256_set1_epi32(words[2] as i32)));
                    high = _mm256_add_epi32(high, _mm256_madd_epi16(odd, _mm256_set1_epi32(words[3] as i32)));
                }
                let sum = _mm256_add_epi32(low, _mm256_slli_epi32::<16>(high));
                // SAFETY: the pointer is to eight words.
                let old = unsafe { _mm256_loadu_si256(sums.as_ptr().cast()) };
                // SAFETY: the pointer is to eight words, borrowed mutably.
                unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), _mm256_add_epi32(old, sum)) };
            }
        }
    }

    /// Exclusive or of all words, with as many loads on their way as [`Vnni`] has.
    ///
    /// # Safety
    /// The CPU has AVX-512 F.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn read_all(groups: &[[Line; 4]]) -> u64 {
        let mut acc = [_mm512_setzero_si512(); 4];
        for group in groups {
            for (acc, line) in acc.iter_mut().zip(group) {
                // SAFETY: a line is 64 bytes that begin at a multiple of 64.
                *acc = _mm512_xor_si512(*acc, unsafe { _mm512_load_si512((&raw const line.0).cast()) });
            }
        }
        let mut words = [[0u64; 8]; 4];
        for (words, acc) in words.iter_mut().zip(acc) {
            // SAFETY: the pointer is to eight words, borrowed mutably.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), acc) };
        }
        words.as_flattened().iter().fold(0, |sum, word| sum ^ word)
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{Line, PANEL, Pass};
    use std::arch::aarch64::*;
    use std::arch::asm;

    /// The products of ARM's extension `dotprod`: `sdot` multiplies four signed bytes with four others in each lane and adds all
    /// products to the lane. A word of the vector is written as d0 + 2^8·d1 + 2^16·d2 + 2^24·d3 modulo 2^32 with digits from -128 to
    /// 127. Four digits of the same place are a *plane*; the sums of the four planes are put together at the end.
    ///
    /// So the sums need neither `usdot`, which fewer CPUs have, nor a correction for unsigned bytes.
    pub(super) struct Sdot;

    /// Adds to each lane four bytes times those of the plane. (The standard library's function for it is not stable.)
    #[inline(always)]
    fn sdot<const PLANE: usize>(acc: &mut int32x4_t, bytes: int8x16_t, planes: int32x4_t) {
        // SAFETY: `Sdot` runs only where the CPU has the instruction, which changes one register.
        unsafe {
            asm!(
                "sdot {acc:v}.4s, {bytes:v}.16b, {planes:v}.4b[{plane}]",
                acc = inout(vreg) *acc,
                bytes = in(vreg) bytes,
                planes = in(vreg) planes,
                plane = const PLANE,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
    }

    impl Pass for Sdot {
        /// Plane p is digit p of each of the four words.
        fn prepare(words: [u32; 4]) -> [u32; 4] {
            // A digit from 128 on counts as negative, and then the next is one more: as if 128 had been added to the first three.
            let digits = words.map(|word| (word.wrapping_add(0x0080_8080) ^ 0x0080_8080).to_le_bytes());
            std::array::from_fn(|p| u32::from_le_bytes(digits.map(|digits| digits[p])))
        }

        #[target_feature(enable = "neon,dotprod")]
        unsafe fn pass<const LINES: usize>(
            block: &[[Line; 4]],
            vector: &[[u32; 4]],
            next: *const u8,
            sums: &mut [u32; PANEL],
        ) {
            // Sixteen rows at a time: four sweeps over the block, which is in the first-level cache, with 16 sums in registers.
            for (tile, sums) in sums.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                let mut acc = [[vdupq_n_s32(0); 4]; 4];
                for (i, (group, planes)) in block.iter().zip(vector).enumerate() {
                    if tile == 0 {
                        for line in 0..LINES {
                            let line = next.wrapping_add(64 * (i * LINES + line));
                            // SAFETY: every ARM CPU has the instruction, and a prefetch of any address is harmless.
                            unsafe {
                                asm!("prfm pldl1keep, [{}]", in(reg) line, options(readonly, nostack, preserves_flags));
                            }
                        }
                    }
                    // SAFETY: the pointer is to four words.
                    let planes = unsafe { vld1q_s32(planes.as_ptr().cast()) };
                    for (acc, bytes) in acc.iter_mut().zip(group[tile].0.as_chunks::<16>().0) {
                        // SAFETY: the pointer is to 16 bytes.
                        let bytes = unsafe { vld1q_s8(bytes.as_ptr().cast()) };
                        sdot::<0>(&mut acc[0], bytes, planes);
                        sdot::<1>(&mut acc[1], bytes, planes);
                        sdot::<2>(&mut acc[2], bytes, planes);
                        sdot::<3>(&mut acc[3], bytes, planes);
                    }
                }
                for (sums, [a0, a1, a2, a3]) in sums.as_chunks_mut::<4>().0.iter_mut().zip(acc) {
                    let low = vaddq_s32(a0, vshlq_n_s32::<8>(a1));
                    let high = vaddq_s32(vshlq_n_s32::<16>(a2), vshlq_n_s32::<24>(a3));
                    let sum = vreinterpretq_u32_s32(vaddq_s32(low, high));
                    // SAFETY: the pointer is to four words.
                    let old = unsafe { vld1q_u32(sums.as_ptr()) };
                    // SAFETY: the pointer is to four words, borrowed mutably.
                    unsafe { vst1q_u32(sums.as_mut_ptr(), vaddq_u32(old, sum)) };
                }
            }
        }
    }
}
