use crate::disk::ReadAt;
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use std::cell::RefCell;
use std::fs::{File, Permissions};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use vesica_block::Block;
use vesica_block::aes::Aes128;
use zeroize::Zeroizing;

/// What direct I/O moves is a whole number of these, in the file and in memory: a multiple of the sectors of every disk.
pub(crate) const PAGE: usize = 4 << 10;

/// Bytes that are read at a time past the page cache.
pub(crate) const READ: usize = 512 << 10;

/// Masks that are made at a time: they stay in the first-level cache.
const TOGETHER: usize = 128;

/// Bytes of the file that one nonce of ChaCha20 covers: well within what its counter of 2^32 blocks can count.
const SPAN: u64 = 64 << 31;

thread_local! {
    /// Where this thread reads to past the page cache: to touch fresh memory for each piece would cost more than to read it.
    static READING: RefCell<Option<Pages>> = const { RefCell::new(None) };
}

/// A file without a name, for its owner alone, and of no use even to whoever gets at the disk: its bytes are masked
/// under a key of its own that is never written. It is gone when it is dropped, however the program ends.
///
/// No byte may be written twice, for the mask depends on its place alone.
pub(crate) struct Sealed {
    file: File,
    mask: Mask,
    /// Whether it is written in whole pages, past the page cache where the file system can do that.
    direct: bool,
}

impl Sealed {
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(dir)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(Self { file, mask: Mask::new()?, direct: false })
    }

    /// One that may be read and written past the page cache. All that is written must be [`Pages`], at a multiple of [`PAGE`].
    pub(crate) fn direct(dir: &Path) -> io::Result<Self> {
        Ok(Self { direct: true, ..Self::new(dir)? })
    }

    /// From now on it goes past the page cache, if it may and the file system can do that.
    pub(crate) fn leave_the_cache(&self) {
        if self.direct {
            // Who cannot do it says so here, or at the next write.
            let _ = past_the_cache(&self.file, true);
        }
    }

    /// What the lengths and the places of all that is written must be multiples of.
    pub(crate) fn unit(&self) -> usize {
        if self.direct { PAGE } else { 1 }
    }

    /// Writes `bytes` at `offset`, and leaves them masked.
    pub(crate) fn write_all_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.mask.apply(bytes, offset);
        // The same bytes come to the same place if it is tried again.
        self.cached_if_refused(|| self.file.write_all_at(bytes, offset))
    }

    /// Does what the file system may refuse to do past the page cache: then through it, from now on.
    fn cached_if_refused<T>(&self, mut io: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        match io() {
            Err(error) if self.direct && error.kind() == io::ErrorKind::InvalidInput => {
                past_the_cache(&self.file, false)?;
                io()
            }
            done => done,
        }
    }

    /// Reads `bytes` from `offset` past the page cache: the pages that they stand in.
    fn read_direct(&self, mut bytes: &mut [u8], mut offset: u64, pages: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let before = (offset % PAGE as u64) as usize;
            let pages = &mut pages[..(before + bytes.len()).next_multiple_of(PAGE).min(READ)];
            let (now, rest) = bytes.split_at_mut(bytes.len().min(pages.len() - before));
            let end = before + now.len();
            let mut has = 0;
            while has < end {
                let at = offset - before as u64 + has as u64;
                match self.cached_if_refused(|| self.file.read_at(&mut pages[has..], at)) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(n) => has += n,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            now.copy_from_slice(&pages[before..end]);
            self.mask.apply(now, offset);
            offset += now.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// One on a disk without room.
    #[cfg(test)]
    pub(crate) fn full() -> Self {
        let file = File::options().write(true).open("/dev/full").unwrap();
        Self { file, mask: Mask::new().unwrap(), direct: false }
    }
}

impl ReadAt for Sealed {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        if self.direct {
            let pages = |pages: &mut Option<Pages>| {
                self.read_direct(bytes, offset, pages.get_or_insert_with(|| Pages::new(READ)))
            };
            return READING.with_borrow_mut(pages);
        }
        self.file.read_exact_at(bytes, offset)?;
        self.mask.apply(bytes, offset);
        Ok(())
    }
}

/// How many bytes of a file the page cache may well hold: an eighth of the memory that is free now.
///
/// What is written once and read once needs no copy there. But as long as there is room, the system writes it out while this
/// program goes on, and what is larger has to wait for the disk in any case (`docs/src/design/04-keys.md` has the figures).
pub(crate) fn room_in_cache() -> u64 {
    available(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default()) / 8
}

/// Bytes that `/proc/meminfo` calls available; 0 where it says nothing.
fn available(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0).saturating_mul(1024)
}

/// Has what is read and written of `file` go past the page cache, or through it.
#[cfg(target_os = "linux")]
fn past_the_cache(file: &File, past: bool) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let mut flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
    flags.set(OFlag::O_DIRECT, past);
    fcntl(file, FcntlArg::F_SETFL(flags))?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn past_the_cache(_: &File, _: bool) -> io::Result<()> {
    Ok(())
}

/// Memory that begins where a page begins, as direct I/O wants it.
pub(crate) struct Pages {
    memory: Vec<u8>,
    from: usize,
    len: usize,
}

impl Pages {
    /// Room for `len` bytes.
    pub(crate) fn new(len: usize) -> Self {
        let memory = vec![0; len + PAGE];
        let from = memory.as_ptr().addr().next_multiple_of(PAGE) - memory.as_ptr().addr();
        Self { memory, from, len }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.from..self.from + self.len]
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.len]
    }
}

/// What bytes are masked by, each by its place.
enum Mask {
    /// AES-128 in counter mode (SP 800-38A, section 6.5). The counter of a block of 16 bytes is its place in the file.
    Aes(Aes128),
    /// ChaCha20, where the CPU has no instructions for AES.
    ChaCha20(Zeroizing<[u8; 32]>),
}

impl Mask {
    fn new() -> io::Result<Self> {
        if Aes128::has_instructions() { Self::aes() } else { Self::chacha20() }
    }

    fn aes() -> io::Result<Self> {
        let mut key = Zeroizing::new([0; 16]);
        getrandom::fill(&mut *key).map_err(io::Error::other)?;
        Ok(Self::Aes(Aes128::new(Block::from_le_bytes(*key))))
    }

    fn chacha20() -> io::Result<Self> {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *key).map_err(io::Error::other)?;
        Ok(Self::ChaCha20(key))
    }

    /// Masks `bytes`, which stand at `offset`, or takes their mask off.
    fn apply(&self, bytes: &mut [u8], offset: u64) {
        match self {
            Self::Aes(aes) => counter_mode(aes, u128::from(offset / 16), (offset % 16) as usize, bytes),
            Self::ChaCha20(key) => chacha20(key, bytes, offset),
        }
    }
}

/// Counter mode from `counter` on. The first block's first `passed` bytes stand before `bytes`.
fn counter_mode(aes: &Aes128, mut counter: u128, mut passed: usize, mut bytes: &mut [u8]) {
    let mut masks = [Block::ZERO; TOGETHER];
    while !bytes.is_empty() {
        let masks = &mut masks[..(passed + bytes.len()).div_ceil(16).min(TOGETHER)];
        for mask in masks.iter_mut() {
            *mask = Block(counter.swap_bytes());
            counter = counter.wrapping_add(1);
        }
        aes.encrypt_in_place(masks);
        let (now, rest) = bytes.split_at_mut(bytes.len().min(16 * masks.len() - passed));
        let (first, whole) = now.split_at_mut(if passed > 0 { now.len().min(16 - passed) } else { 0 });
        let mut masks = masks.iter();
        if !first.is_empty() {
            let mask = masks.next().map(|mask| mask.to_le_bytes()).unwrap_or_default();
            first.iter_mut().zip(&mask[passed..]).for_each(|(byte, mask)| *byte ^= mask);
        }
        let (blocks, last) = whole.as_chunks_mut::<16>();
        for (block, mask) in blocks.iter_mut().zip(&mut masks) {
            *block = (u128::from_le_bytes(*block) ^ mask.0).to_le_bytes();
        }
        if let Some(mask) = masks.next() {
            last.iter_mut().zip(mask.to_le_bytes()).for_each(|(byte, mask)| *byte ^= mask);
        }
        (bytes, passed) = (rest, 0);
    }
}

fn chacha20(key: &[u8; 32], mut bytes: &mut [u8], mut offset: u64) {
    while !bytes.is_empty() {
        let within = offset % SPAN;
        let n = (SPAN - within).min(bytes.len() as u64);
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&(offset / SPAN).to_le_bytes());
        let mut cipher = ChaCha20::new(key.into(), (&nonce).into());
        cipher.seek(within);
        let (now, rest) = bytes.split_at_mut(n as usize);
        cipher.apply_keystream(now);
        bytes = rest;
        offset += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn sealed(dir: &Path) -> Vec<Sealed> {
        let of = |mask: io::Result<Mask>, direct| {
            let file = if direct { Sealed::direct(dir) } else { Sealed::new(dir) }.unwrap();
            file.leave_the_cache();
            Sealed { mask: mask.unwrap(), ..file }
        };
        let masks = [Mask::aes, Mask::chacha20];
        masks.into_iter().flat_map(|mask| [of(mask(), false), of(mask(), true)]).collect()
    }

    #[test]
    fn free_memory_is_read() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   23068672 kB\nBuffers: 1 kB\n"), 22 << 30);
        assert_eq!([available(""), available("MemAvailable: many kB")], [0, 0]);
    }

    #[test]
    fn what_is_written_comes_back_from_any_place_and_does_not_stand_there() {
        let dir = tempfile::tempdir().unwrap();
        let text: Vec<u8> = (0..5 * PAGE as u32 / 4).flat_map(u32::to_le_bytes).collect();
        for sealed in sealed(dir.path()) {
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "it has no name");
            assert_eq!(sealed.file.metadata().unwrap().mode() & 0o777, 0o600);
            let part = if sealed.direct { PAGE } else { 300 };
            // Across the end of a nonce's span too; the file is sparse.
            for base in [0, SPAN - 2 * PAGE as u64, 1 << 40] {
                for (i, part_of) in text.chunks(part).enumerate() {
                    let mut pages = Pages::new(part_of.len());
                    pages.copy_from_slice(part_of);
                    sealed.write_all_at(&mut pages, base + (part * i) as u64).unwrap();
                }
                for (from, to) in
                    [(0, text.len()), (1, 2), (63, 130), (1999, 2050), (PAGE - 1, 3 * PAGE + 5), (PAGE, 2 * PAGE)]
                {
                    let mut bytes = vec![0; to - from];
                    sealed.read_exact_at(&mut bytes, base + from as u64).unwrap();
                    assert!(bytes == text[from..to], "{from} to {to}");
                }
                let mut raw = Pages::new(text.len());
                sealed.file.read_exact_at(&mut raw, base).unwrap();
                let same = raw.iter().zip(&text).filter(|(a, b)| a == b).count();
                assert!(same < text.len() / 50, "{same} bytes are as they were");
            }
            assert!(sealed.read_exact_at(&mut [0; 2], 1 << 50).is_err(), "there is nothing");
        }
    }

    #[test]
    fn each_file_has_a_key_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let mask = |make: fn() -> io::Result<Mask>| {
            let mut zeros = [0; 64];
            Sealed { mask: make().unwrap(), ..Sealed::new(dir.path()).unwrap() }.mask.apply(&mut zeros, 0);
            zeros
        };
        for make in [Mask::aes, Mask::chacha20] {
            assert_ne!(mask(make), mask(make));
        }
    }

    /// SP 800-38A, appendix F.5.1 (CTR-AES128), whole and from any byte to any other.
    #[test]
    fn counters_are_those_of_the_standard() {
        let bytes = |hex: &str| -> Vec<u8> {
            (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect()
        };
        let key = bytes("2b7e151628aed2a6abf7158809cf4f3c");
        let aes = Aes128::new(Block::from_le_bytes(key.try_into().unwrap()));
        let counter = 0xf0f1_f2f3_f4f5_f6f7_f8f9_fafb_fcfd_feff;
        let plain = bytes(
            "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
             30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
        );
        let masked = bytes(
            "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff\
             5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee",
        );
        for from in 0..plain.len() {
            for to in from..=plain.len() {
                let mut part = plain[from..to].to_vec();
                counter_mode(&aes, counter + from as u128 / 16, from % 16, &mut part);
                assert_eq!(part, masked[from..to], "{from} to {to}");
            }
        }
        // Whatever is masked together.
        let mut whole = vec![0; 16 * (3 * TOGETHER + 2)];
        counter_mode(&aes, 0, 0, &mut whole);
        for at in [0, 16 * TOGETHER - 3, 16 * TOGETHER, 16 * TOGETHER + 1, whole.len() - 5] {
            let mut rest = vec![0; whole.len() - at];
            counter_mode(&aes, at as u128 / 16, at % 16, &mut rest);
            assert_eq!(rest, whole[at..]);
        }
    }

    #[test]
    fn what_is_refused_past_the_page_cache_goes_through_it() {
        let dir = tempfile::tempdir().unwrap();
        let sealed = Sealed::direct(dir.path()).unwrap();
        sealed.leave_the_cache();
        // No file system takes half a sector at an odd place.
        sealed.write_all_at(&mut [7; 100], 13).unwrap();
        let mut bytes = [0; 100];
        sealed.read_exact_at(&mut bytes, 13).unwrap();
        assert_eq!(bytes, [7; 100]);
    }
}
