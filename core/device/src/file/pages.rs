//! Writes to the process's own mapping that the kernel copies, page by page (`process_vm_writev`).
//!
//! A process that is killed leaves a write short, and pages whole, as much as a system call that names the file does, but
//! without looking up, locking and marking each page by way of the file, which is an eighth of a long write's cost.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set where the kernel, or a filter of system calls, refuses it.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Whether it was refused, so that nobody need try.
pub(super) fn is_refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

/// Copies `data` to `to`; whether all of it. Pages that are missing there and cannot be had end it.
///
/// # Safety
/// The range at `to` is mapped to a file, and nothing refers to it as memory that keeps still.
pub(super) unsafe fn write(to: *mut u8, data: &[u8]) -> bool {
    let from = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    let into = libc::iovec { iov_base: to.cast(), iov_len: data.len() };
    // SAFETY: both vectors live on this frame; the first names borrowed data that is only read, the second is the caller's.
    let moved = unsafe { libc::process_vm_writev(libc::getpid(), &raw const from, 1, &raw const into, 1, 0) };
    if moved < 0 && !matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT | libc::ENOMEM | libc::EINTR)) {
        REFUSED.store(true, Ordering::Relaxed);
    }
    moved == data.len() as isize
}
