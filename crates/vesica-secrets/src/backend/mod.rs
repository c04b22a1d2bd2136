//! What the program tells Valgrind's memcheck: which bytes are secret. Memcheck calls such bytes *undefined*. It follows them through
//! every instruction, and reports a branch and an address that depend on them. And what it tells qemu, which runs it on ARM: where the
//! kernel begins and ends.
//!
//! This folder is the only one of the crate with `unsafe` in it. What makes it sound: a request is five instructions that change nothing
//! but the register of the answer when Valgrind does not run the program; and when it does, only what it notes *about* memory changes,
//! never the memory. A mark is one instruction that does nothing.

#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
mod arena;

/// `VG_USERREQ__RUNNING_ON_VALGRIND` of `valgrind.h`.
const RUNNING_ON_VALGRIND: usize = 0x1001;

/// The first request of memcheck: `VG_USERREQ_TOOL_BASE('M', 'C')`. The others of `memcheck.h` follow it.
const MEMCHECK: usize = (b'M' as usize) << 24 | (b'C' as usize) << 16;
const MAKE_MEM_UNDEFINED: usize = MEMCHECK + 1;
const MAKE_MEM_DEFINED: usize = MEMCHECK + 2;
const GET_VBITS: usize = MEMCHECK + 8;

/// What Valgrind answers to a request with up to three arguments; 0 where it does not run the program.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[inline(never)]
fn request(code: usize, a: usize, b: usize, c: usize) -> usize {
    let arguments = [code, a, b, c, 0, 0];
    let answer;
    // SAFETY: the rotations of rdi add up to 128 bits, so it is as before, and so is rbx, exchanged with itself. Valgrind knows these
    // instructions by their order, reads the arguments and writes rdx. What it may write in memory is what `c` of GET_VBITS points to, which
    // its caller owns.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0usize => answer,
        );
    }
    answer
}

/// Nobody answers elsewhere.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn request(_: usize, _: usize, _: usize, _: usize) -> usize {
    0
}

/// Whether Valgrind runs the program.
pub fn watched() -> bool {
    request(RUNNING_ON_VALGRIND, 0, 0, 0) != 0
}

/// These values are secret from here on, and so is whatever is computed from them.
pub fn hide<T: Copy>(values: &mut [T]) {
    request(MAKE_MEM_UNDEFINED, values.as_mut_ptr() as usize, size_of_val(values), 0);
}

/// These values are public from here on. What else was computed from the same secrets stays secret.
pub fn reveal<T>(values: &[T]) {
    request(MAKE_MEM_DEFINED, values.as_ptr() as usize, size_of_val(values), 0);
}

/// How many bits of these values depend on a secret, as far as Valgrind knows.
pub fn hidden_bits<T>(values: &[T]) -> usize {
    let mut bits = vec![0u8; size_of_val(values)];
    request(GET_VBITS, values.as_ptr() as usize, bits.as_mut_ptr() as usize, bits.len());
    // Bits about bits: they are public.
    reveal(&bits);
    bits.iter().map(|byte| byte.count_ones() as usize).sum()
}

/// Before a run that is traced: its memory is the same whatever was in it before.
pub fn prepare() {
    #[cfg(target_arch = "aarch64")]
    arena::open();
}

/// From here on the trace is kept (`xtask/src/trace.c`).
#[inline(always)]
pub fn begin() {
    // SAFETY: the instruction does nothing: it is a hint whose number has no meaning.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("hint #112", options(nostack, preserves_flags));
    }
}

/// The trace ends here.
#[inline(always)]
pub fn end() {
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("hint #113", options(nostack, preserves_flags));
    }
}
