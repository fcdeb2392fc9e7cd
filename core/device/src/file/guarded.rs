//! Copies to and from mapped files, whose pages may be gone or have no memory to come from.
//!
//! Touching such a page raises `SIGBUS`. The handler knows the few instructions that copy, and has the thread go on behind
//! them, so that the copy ends there and says how much is missing. Every other `SIGBUS` goes on to whoever handled it before.
//!
//! ```text
//!   copy, stream   move and count down what is left in rcx ── SIGBUS here ──┐
//!   end            mov rax, rcx ◀───────────── the handler sets rip to this ┘
//! ```
//!
//! Only processors with a fast `rep movsb` copy so; others have no guarded copy, and their files are not mapped.

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::sync::OnceLock;

    std::arch::global_asm!(
        ".pushsection .text.holdfast_guarded_copy, \"ax\", @progbits",
        ".globl holdfast_guarded_copy",
        ".hidden holdfast_guarded_copy",
        ".globl holdfast_guarded_stream",
        ".hidden holdfast_guarded_stream",
        ".globl holdfast_guarded_end",
        ".hidden holdfast_guarded_end",
        "holdfast_guarded_copy:",
        "rep movsb",
        "mov rax, rcx",
        "ret",
        ".balign 32",
        "holdfast_guarded_stream:",
        "2:",
        "movdqu xmm0, [rsi]",
        "movdqu xmm1, [rsi + 16]",
        "movdqu xmm2, [rsi + 32]",
        "movdqu xmm3, [rsi + 48]",
        "movntdq [rdi], xmm0",
        "movntdq [rdi + 16], xmm1",
        "movntdq [rdi + 32], xmm2",
        "movntdq [rdi + 48], xmm3",
        "add rsi, 64",
        "add rdi, 64",
        "sub rcx, 64",
        "jnz 2b",
        "holdfast_guarded_end:",
        "sfence",
        "mov rax, rcx",
        "ret",
        ".popsection",
    );

    unsafe extern "sysv64" {
        // The fourth argument is the register that counts: from the first instruction on it says what is left.
        fn holdfast_guarded_copy(to: *mut u8, from: *const u8, unused: usize, len: usize) -> usize;
        fn holdfast_guarded_stream(to: *mut u8, from: *const u8, unused: usize, len: usize) -> usize;
        static holdfast_guarded_end: u8;
    }

    /// Of `asm-generic/siginfo.h`: bad memory was found, and no access failed.
    const BUS_MCEERR_AO: libc::c_int = 5;

    /// What handled `SIGBUS` before.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    extern "C" fn on_bus_error(number: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let (begin, end) = (holdfast_guarded_copy as *const () as usize, &raw const holdfast_guarded_end as usize);
        // SAFETY: the kernel hands over what it says of the signal, and the context of the interrupted thread, which nobody else
        // touches until this returns.
        let (code, next) =
            unsafe { ((*info).si_code, &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize]) };
        if code == BUS_MCEERR_AO {
            // Memory went bad that nobody touches now.
            return;
        }
        if code <= 0 {
            // Somebody sent it.
            // SAFETY: plain system calls; the process ends when this returns.
            unsafe {
                libc::signal(libc::SIGBUS, libc::SIG_DFL);
                libc::raise(libc::SIGBUS);
            }
            return;
        }
        if (begin..end).contains(&(*next as usize)) {
            *next = end as libc::greg_t;
            return;
        }
        let handler = BEFORE.get().map_or(libc::SIG_DFL, |before| before.sa_sigaction);
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            // SAFETY: plain system call; the instruction is run again, and ends the process.
            unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
            return;
        }
        let with_context = BEFORE.get().is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0);
        // SAFETY: the address was registered as a handler of this kind, and gets what the kernel hands to such.
        unsafe {
            if with_context {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = std::mem::transmute(handler);
                handler(number, info, context);
            } else {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                handler(number);
            }
        }
    }

    /// Whether [`copy`] may be used. Sets the handler up when it is asked for the first time.
    pub fn is_available() -> bool {
        static READY: OnceLock<bool> = OnceLock::new();
        *READY.get_or_init(|| {
            // SAFETY: every processor of this kind has leaf 0, and leaf 7 where that says so; the handler is made for its
            // flags, and all structures live on this frame.
            unsafe {
                let fast = std::arch::x86_64::__cpuid(0).eax >= 7 && std::arch::x86_64::__cpuid_count(7, 0).ebx & (1 << 9) != 0;
                if !fast || libc::sysconf(libc::_SC_PAGESIZE) != 4096 {
                    return false;
                }
                let mut before: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) != 0 {
                    return false;
                }
                let _ = BEFORE.set(before);
                let mut ours: libc::sigaction = std::mem::zeroed();
                ours.sa_sigaction = on_bus_error as *const () as usize;
                ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
                libc::sigaction(libc::SIGBUS, &raw const ours, std::ptr::null_mut()) == 0
            }
        })
    }

    /// As [`copy`], past the caches: faster where the destination is not in them, slower where it is. `to` is aligned to 64 bytes, and
    /// `len` a multiple of as many.
    ///
    /// # Safety
    /// As of [`copy`].
    pub unsafe fn stream(from: *const u8, to: *mut u8, len: usize) -> bool {
        debug_assert!(len > 0 && (to as usize | len).is_multiple_of(64));
        // SAFETY: the caller's.
        unsafe { holdfast_guarded_stream(to, from, 0, len) == 0 }
    }

    /// Copies `len` bytes; whether all of them.
    ///
    /// # Safety
    /// [`is_available`] said so; both ranges are mapped, one of them perhaps to pages that its file does not have; the other is
    /// memory that `to` may be written to, or `from` read from; they do not overlap.
    pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's; the direction flag is clear between functions.
        unsafe { holdfast_guarded_copy(to, from, 0, len) == 0 }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod none {
    pub fn is_available() -> bool {
        false
    }

    /// # Safety
    /// Never called, as nothing is available.
    pub unsafe fn copy(_: *const u8, _: *mut u8, _: usize) -> bool {
        unreachable!("no guarded copy for this processor")
    }

    /// # Safety
    /// As of [`copy`].
    pub unsafe fn stream(_: *const u8, _: *mut u8, _: usize) -> bool {
        unreachable!("no guarded copy for this processor")
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub use none::{copy, is_available, stream};
#[cfg(target_arch = "x86_64")]
pub use x86::{copy, is_available, stream};
