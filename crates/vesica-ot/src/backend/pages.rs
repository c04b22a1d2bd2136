//! Large pages: places in megabytes of symbols are random, and 4 kB pages would make each of them miss the TLB too.

/// Asks the kernel to back this memory, which nothing has touched yet, with large pages. It may decline.
pub(crate) fn prefer_large<T>(memory: &[T]) {
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 4096;
        let range = memory.as_ptr_range();
        let start = (range.start as usize).next_multiple_of(PAGE);
        let len = (range.end as usize).saturating_sub(start) / PAGE * PAGE;
        if len > 0 {
            // SAFETY: the pages lie inside memory that is borrowed here, and this advice does not change what they hold.
            unsafe { libc::madvise(start as *mut libc::c_void, len, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}
