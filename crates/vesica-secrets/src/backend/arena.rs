//! Memory of a traced run: it is handed out once and never taken back.
//!
//! The allocator of the C library divides, and that of musl looks at what is left in memory that was given back, which may be a part of a
//! secret. Either would stand in the trace, and says nothing of a kernel.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// More than any traced case takes.
const SIZE: usize = 1 << 28;

struct Memory(UnsafeCell<[u8; SIZE]>);

// SAFETY: no two allocations share a byte of it.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; SIZE]));
static NEXT: AtomicUsize = AtomicUsize::new(0);
static TRACED: AtomicBool = AtomicBool::new(false);

/// From here on memory is the arena's.
pub fn open() {
    TRACED.store(true, Ordering::Relaxed);
}

struct Arena;

#[global_allocator]
static ARENA: Arena = Arena;

// SAFETY: what is handed out is the system's, or bytes of MEMORY that nobody else is given, aligned as asked.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !TRACED.load(Ordering::Relaxed) {
            // SAFETY: the caller's promise is the same.
            return unsafe { System.alloc(layout) };
        }
        let size = layout.size() + layout.align();
        if size > SIZE {
            return null_mut();
        }
        // What is refused counts too, so nobody gets what others have until SIZE was asked for so often that the number wraps: 2^36 times.
        let at = NEXT.fetch_add(size, Ordering::Relaxed);
        if at > SIZE - size {
            return null_mut();
        }
        let start = MEMORY.0.get().cast::<u8>().wrapping_add(at);
        start.wrapping_add(start.align_offset(layout.align()))
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let start = MEMORY.0.get().cast::<u8>();
        if !(start..start.wrapping_add(SIZE)).contains(&memory) {
            // SAFETY: it came from the system, and the caller's promise is the same.
            unsafe { System.dealloc(memory, layout) }
        }
    }
}
