//! Keyed BLAKE3 of short messages by the batch.
//!
//! A message of at most 64 bytes is one call of BLAKE3's compression function, one of up to 1024 bytes a chain of calls. A call by
//! itself is a chain of 14 dependent half rounds; here each lane of a vector has a message of its own. The hashes are those of
//! any other implementation (BLAKE3, version 20211102, section 2).

use crate::backend::{Ready, WordKernel, Words};

/// The most lanes of any back end.
const LANES: usize = 16;

/// The first words of BLAKE3's initialisation vector (SHA-256's).
const IV: [u32; 4] = [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a];

/// The flag of every block under a key: KEYED_HASH.
const KEYED: u32 = 16;

/// The flag of a message's first block: CHUNK_START.
const FIRST: u32 = 1;

/// Those of its last one: CHUNK_END, ROOT.
const LAST: u32 = 2 | 8;

/// The most bytes of a message that is one chunk.
pub const CHUNK: usize = 1024;

/// A message of at most [`Message::LONGEST`] bytes.
#[derive(Clone, Copy)]
pub struct Message {
    block: [u8; Message::LONGEST],
    len: u32,
}

impl Message {
    /// Bytes of a block.
    pub const LONGEST: usize = 64;

    /// The message, if it is short enough.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut block = [0; Self::LONGEST];
        block.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { block, len: bytes.len() as u32 })
    }
}

/// Hashes each message under `key`; `hashes` may have more room than there are messages.
///
/// # Panics
/// If it has less.
pub fn keyed(key: &[u8; 32], messages: &[Message], hashes: &mut [[u8; 32]]) {
    keyed_on(Ready::chosen(), key, messages, hashes);
}

fn keyed_on(ready: Ready, key: &[u8; 32], messages: &[Message], hashes: &mut [[u8; 32]]) {
    let hashes = &mut hashes[..messages.len()];
    let key = std::array::from_fn(|i| u32::from_le_bytes(key.as_chunks::<4>().0[i]));
    ready.words(Keyed { key, messages, hashes });
}

/// Texts one after the other, as Arrow has them.
#[derive(Clone, Copy)]
pub struct Texts<'a> {
    bytes: &'a [u8],
    offsets: &'a [i32],
}

/// Bytes before a text in [`keyed_texts`].
const HEAD: usize = 9;

impl<'a> Texts<'a> {
    /// The most bytes of a text that is hashed.
    pub const LONGEST: usize = Message::LONGEST - HEAD;

    /// Text i is `bytes[offsets[i]..offsets[i + 1]]`.
    pub fn new(bytes: &'a [u8], offsets: &'a [i32]) -> Self {
        Self { bytes, offsets }
    }

    /// Where a text begins, and its length.
    #[inline(always)]
    fn range(&self, place: usize) -> (usize, usize) {
        let (from, to) = (self.offsets[place] as usize, self.offsets[place + 1] as usize);
        let len = to.wrapping_sub(from);
        assert!(len <= Self::LONGEST, "a text of {len} bytes");
        (from, len)
    }

    /// A text's message, behind which its block has zeros, and how many bytes that is.
    #[inline(always)]
    pub(crate) fn message(&self, tag: u8, place: usize) -> ([u32; 16], usize) {
        let (from, len) = self.range(place);
        (self.block(tag, from, len), HEAD + len)
    }

    /// The one block of a text's message. Where there are bytes around it, these are read with it and masked: no call copies
    /// a few bytes, and no jump depends on how many.
    #[inline(always)]
    fn block(&self, tag: u8, from: usize, len: usize) -> [u32; 16] {
        let around = from.checked_sub(HEAD).and_then(|begin| self.bytes.get(begin..)?.first_chunk());
        let mut block = match around {
            Some(around) => {
                let (words, mask) = (words(around), &MASKS[len]);
                std::array::from_fn(|i| words[i] & mask[i])
            }
            None => {
                let mut block = [0; Message::LONGEST];
                block[HEAD..HEAD + len].copy_from_slice(&self.bytes[from..from + len]);
                words(&block)
            }
        };
        block[0] = u32::from(tag) | (len as u32) << 8;
        block
    }
}

/// For each length, the bits of a block that are the text's.
static MASKS: [[u32; 16]; Texts::LONGEST + 1] = {
    let mut masks = [[0; 16]; Texts::LONGEST + 1];
    let mut len = 0;
    while len < masks.len() {
        let mut byte = HEAD;
        while byte < HEAD + len {
            masks[len][byte / 4] |= 0xff << (8 * (byte % 4));
            byte += 1;
        }
        len += 1;
    }
    masks
};

/// Hashes the texts at `places` under `key`, each behind a head: the byte `tag`, and the text's length in 8 bytes,
/// little-endian. `hashes` may have more room than there are places.
///
/// # Panics
/// If it has less; for a text that is not there, or is longer than [`Texts::LONGEST`].
pub fn keyed_texts(key: &[u8; 32], tag: u8, texts: Texts<'_>, places: &[u32], hashes: &mut [[u8; 32]]) {
    keyed_texts_on(Ready::chosen(), key, tag, texts, places, hashes);
}

fn keyed_texts_on(ready: Ready, key: &[u8; 32], tag: u8, texts: Texts<'_>, places: &[u32], hashes: &mut [[u8; 32]]) {
    let hashes = &mut hashes[..places.len()];
    let key = std::array::from_fn(|i| u32::from_le_bytes(key.as_chunks::<4>().0[i]));
    ready.words(KeyedTexts { key, tag, texts, places, hashes });
}

/// Hashes each `len` bytes of `messages` under `key`; `hashes` may have more room than there are messages.
///
/// # Panics
/// If it has less; if `len` is zero or more than [`CHUNK`], or there is a part of a message.
pub fn keyed_rows(key: &[u8; 32], messages: &[u8], len: usize, hashes: &mut [[u8; 32]]) {
    keyed_rows_on(Ready::chosen(), key, messages, len, hashes);
}

fn keyed_rows_on(ready: Ready, key: &[u8; 32], messages: &[u8], len: usize, hashes: &mut [[u8; 32]]) {
    assert!((1..=CHUNK).contains(&len) && messages.len().is_multiple_of(len), "messages of {len} bytes");
    let hashes = &mut hashes[..messages.len() / len];
    let key = std::array::from_fn(|i| u32::from_le_bytes(key.as_chunks::<4>().0[i]));
    ready.words(KeyedRows { key, messages, len, hashes });
}

struct Keyed<'a> {
    key: [u32; 8],
    messages: &'a [Message],
    hashes: &'a mut [[u8; 32]],
}

impl WordKernel for Keyed<'_> {
    #[inline(always)]
    fn run<W: Words>(self) {
        let key = self.key.map(W::splat);
        let (mut rows, mut lens) = ([[0; 16]; LANES], [0; LANES]);
        for (messages, hashes) in self.messages.chunks(W::WIDTH).zip(self.hashes.chunks_mut(W::WIDTH)) {
            for (lane, message) in messages.iter().enumerate() {
                lens[lane] = message.len;
                rows[lane] = words(&message.block);
            }
            let hash = compress(&key, &W::columns(&rows), W::load(&lens), KEYED | FIRST | LAST);
            store(hash, hashes);
        }
    }
}

struct KeyedTexts<'a> {
    key: [u32; 8],
    tag: u8,
    texts: Texts<'a>,
    places: &'a [u32],
    hashes: &'a mut [[u8; 32]],
}

impl WordKernel for KeyedTexts<'_> {
    #[inline(always)]
    fn run<W: Words>(self) {
        let key = self.key.map(W::splat);
        let (mut rows, mut lens) = ([[0; 16]; LANES], [0; LANES]);
        for (places, hashes) in self.places.chunks(W::WIDTH).zip(self.hashes.chunks_mut(W::WIDTH)) {
            for (lane, &place) in places.iter().enumerate() {
                let (block, bytes) = self.texts.message(self.tag, place as usize);
                (rows[lane], lens[lane]) = (block, bytes as u32);
            }
            let hash = compress(&key, &W::columns(&rows), W::load(&lens), KEYED | FIRST | LAST);
            store(hash, hashes);
        }
    }
}

/// A block as words.
#[inline(always)]
fn words(block: &[u8; Message::LONGEST]) -> [u32; 16] {
    let (words, _) = block.as_chunks::<4>();
    std::array::from_fn(|i| u32::from_le_bytes(words[i]))
}

struct KeyedRows<'a> {
    key: [u32; 8],
    messages: &'a [u8],
    len: usize,
    hashes: &'a mut [[u8; 32]],
}

impl WordKernel for KeyedRows<'_> {
    #[inline(always)]
    fn run<W: Words>(self) {
        let Self { key, messages, len, hashes } = self;
        let blocks = len.div_ceil(Message::LONGEST);
        let mut rows = [[0; 16]; LANES];
        for (messages, hashes) in messages.chunks(W::WIDTH * len).zip(hashes.chunks_mut(W::WIDTH)) {
            let mut chain = key.map(W::splat);
            for block in 0..blocks {
                let start = block * Message::LONGEST;
                let here = Message::LONGEST.min(len - start);
                for (row, message) in rows.iter_mut().zip(messages.chunks_exact(len)) {
                    *row = match message[start..].first_chunk() {
                        Some(whole) => words(whole),
                        None => {
                            let mut padded = [0; Message::LONGEST];
                            padded[..here].copy_from_slice(&message[start..]);
                            words(&padded)
                        }
                    };
                }
                let first = if block == 0 { FIRST } else { 0 };
                let last = if block + 1 == blocks { LAST } else { 0 };
                chain = compress(&chain, &W::columns(&rows), W::splat(here as u32), KEYED | first | last);
            }
            store(chain, hashes);
        }
    }
}

/// The hash of each lane.
#[inline(always)]
fn store<W: Words>(hash: [W; 8], hashes: &mut [[u8; 32]]) {
    for (hash, words) in hashes.iter_mut().zip(&W::rows(hash)) {
        hash.as_chunks_mut::<4>().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
    }
}

/// The first 32 bytes of BLAKE3's output for the first chunk's block of `len` bytes after `chain`.
#[inline(always)]
fn compress<W: Words>(chain: &[W; 8], m: &[W; 16], len: W, flags: u32) -> [W; 8] {
    let mut v = [W::splat(0); 16];
    v[..8].copy_from_slice(chain);
    v[8..12].iter_mut().zip(IV).for_each(|(v, word)| *v = W::splat(word));
    (v[14], v[15]) = (len, W::splat(flags));
    macro_rules! rounds {
        ($($a:literal $b:literal $c:literal $d:literal $e:literal $f:literal $g:literal $h:literal
           $i:literal $j:literal $k:literal $l:literal $m:literal $n:literal $o:literal $p:literal;)*) => {$(
            mix(&mut v, [0, 4, 8, 12], m[$a], m[$b]);
            mix(&mut v, [1, 5, 9, 13], m[$c], m[$d]);
            mix(&mut v, [2, 6, 10, 14], m[$e], m[$f]);
            mix(&mut v, [3, 7, 11, 15], m[$g], m[$h]);
            mix(&mut v, [0, 5, 10, 15], m[$i], m[$j]);
            mix(&mut v, [1, 6, 11, 12], m[$k], m[$l]);
            mix(&mut v, [2, 7, 8, 13], m[$m], m[$n]);
            mix(&mut v, [3, 4, 9, 14], m[$o], m[$p]);
        )*};
    }
    // Each line is the one above it, permuted (table 2).
    rounds! {
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15;
        2 6 3 10 7 0 4 13 1 11 12 5 9 14 15 8;
        3 4 10 12 13 2 7 14 6 5 9 0 11 15 8 1;
        10 7 12 9 14 3 13 15 4 0 11 2 5 8 1 6;
        12 13 9 11 15 10 14 8 7 2 5 3 0 1 6 4;
        9 14 11 5 8 12 15 1 13 3 0 10 2 6 4 7;
        11 15 5 0 1 9 8 6 14 10 2 12 3 4 7 13;
    }
    std::array::from_fn(|i| v[i].xor(v[i + 8]))
}

/// The quarter round.
#[inline(always)]
fn mix<W: Words>(v: &mut [W; 16], [a, b, c, d]: [usize; 4], x: W, y: W) {
    v[a] = v[a].add(v[b]).add(x);
    v[d] = v[d].xor(v[a]).rotate_right::<16, 16>();
    v[c] = v[c].add(v[d]);
    v[b] = v[b].xor(v[c]).rotate_right::<12, 20>();
    v[a] = v[a].add(v[b]).add(y);
    v[d] = v[d].xor(v[a]).rotate_right::<8, 24>();
    v[c] = v[c].add(v[d]);
    v[b] = v[b].xor(v[c]).rotate_right::<7, 25>();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_back_end_computes_blake3() {
        let bytes: Vec<u8> = (0..200u32).map(|i| ((i * i * 31) >> 3) as u8).collect();
        let key: [u8; 32] = *bytes.last_chunk().unwrap();
        // Every length, each in another lane each time.
        let texts: Vec<&[u8]> = (0..300).map(|i| &bytes[i / 3..][..i % 65]).collect();
        let expected: Vec<[u8; 32]> = texts.iter().map(|text| *blake3::keyed_hash(&key, text).as_bytes()).collect();
        for ready in Ready::all() {
            for n in [0, 1, 2, 7, 8, 9, 15, 16, 17, 33, 300] {
                let messages: Vec<_> = texts[..n].iter().map(|text| Message::new(text).unwrap()).collect();
                let mut hashes = vec![[9; 32]; n + 1];
                keyed_on(ready, &key, &messages, &mut hashes);
                assert_eq!(hashes[..n], expected[..n], "{ready:?}, {n}");
                assert_eq!(hashes[n], [9; 32], "{ready:?}, {n}");
            }
        }
        assert!(Message::new(&[0; 64]).is_some() && Message::new(&[0; 65]).is_none());
    }

    #[test]
    fn texts_are_hashed_behind_their_heads_on_every_back_end() {
        // Of every length, from the array's first byte to its last.
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        let lens = (0..700).map(|i| i * 7 % (Texts::LONGEST as i32 + 1));
        let offsets: Vec<i32> = std::iter::once(0)
            .chain(lens.scan(0, |at, len| {
                *at += len;
                Some(*at)
            }))
            .collect();
        let bytes = &bytes[..offsets[700] as usize];
        let key: [u8; 32] = std::array::from_fn(|i| i as u8);
        let expected = |place: &u32| {
            let text = &bytes[offsets[*place as usize] as usize..offsets[*place as usize + 1] as usize];
            let message = [&[5][..], &(text.len() as u64).to_le_bytes(), text].concat();
            *blake3::keyed_hash(&key, &message).as_bytes()
        };
        for ready in Ready::all() {
            for step in [1, 3, 50, 699] {
                let places: Vec<u32> = (0..700).step_by(step).collect();
                let mut hashes = vec![[9; 32]; places.len() + 1];
                keyed_texts_on(ready, &key, 5, Texts::new(bytes, &offsets), &places, &mut hashes);
                assert_eq!(hashes.pop(), Some([9; 32]));
                assert_eq!(hashes, places.iter().map(expected).collect::<Vec<_>>(), "{ready:?}, {step}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "a text of 56 bytes")]
    fn a_text_that_is_too_long_is_not_cut() {
        keyed_texts(&[0; 32], 1, Texts::new(&[0; 200], &[50, 106]), &[0], &mut [[0; 32]]);
    }

    #[test]
    fn longer_messages_are_hashed_whole_on_every_back_end() {
        let bytes: Vec<u8> = (0..40_000u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        let key: [u8; 32] = *bytes.last_chunk().unwrap();
        for len in [1, 3, 63, 64, 65, 112, 128, 129, 208, CHUNK] {
            for n in [0, 1, 7, 16, 17, 39] {
                let messages = &bytes[..n * len];
                let expected: Vec<_> =
                    messages.chunks_exact(len).map(|text| *blake3::keyed_hash(&key, text).as_bytes()).collect();
                for ready in Ready::all() {
                    let mut hashes = vec![[9; 32]; n + 1];
                    keyed_rows_on(ready, &key, messages, len, &mut hashes);
                    assert_eq!(hashes[..n], expected, "{ready:?}, {n} of {len}");
                    assert_eq!(hashes[n], [9; 32], "{ready:?}, {n} of {len}");
                }
            }
        }
    }
}
