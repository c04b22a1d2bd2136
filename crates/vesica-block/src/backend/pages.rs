//! Large pages.

/// Asks the kernel to back this memory, which nothing has touched yet, with large pages. It may decline.
pub(crate) fn prefer_large<T>(memory: &[T]) {
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 4096;
        const LARGE: usize = 2 << 20;
        let range = memory.as_ptr_range();
        let start = (range.start as usize).next_multiple_of(PAGE);
        let len = (range.end as usize).saturating_sub(start) / PAGE * PAGE;
        if len >= LARGE {
            // SAFETY: the pages lie inside memory that is borrowed here, and this advice does not change what they hold.
            unsafe { libc::madvise(start as *mut libc::c_void, len, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}
