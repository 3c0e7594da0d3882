//! Thread stacks: static, each above a page that is never mapped.
//!
//! The boot code finds the pages by a list that [`thread_stack!`](crate::thread_stack) writes. A stack that is not in it would
//! overwrite its neighbour when it overflows, so safe code makes none:
//!
//! ```compile_fail,E0133
//! static UNGUARDED: takt_kernel::thread::Stack<4096> = takt_kernel::thread::Stack::new();
//! ```
//! ```compile_fail,E0277
//! static UNGUARDED: takt_kernel::thread::Stack<4096> = Default::default();
//! ```
//! ```no_run
//! takt_kernel::thread_stack!(static GUARDED: 4096);
//! ```

use core::sync::atomic::AtomicBool;

use crate::arch::descriptors::GuardedStack;
use crate::compact::between;

/// A thread's stack of `SIZE` bytes (whole pages). Declare it with [`thread_stack!`](crate::thread_stack).
#[repr(transparent)]
pub struct Stack<const SIZE: usize>(GuardedStack<SIZE>);

/// Bytes at a stack's highest addresses that are not the thread's: the first says whether one uses the stack. No page of its own,
/// and the stack stays 16-aligned.
const FLAG: usize = 16;

/// A stack of any size: its usable addresses. Right above them stands whether a thread uses it.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) bottom: usize,
    pub(super) top: usize,
}

impl Parts {
    /// Those of a stack of `size` bytes from `bottom` on.
    #[inline(always)]
    pub(super) const fn new(bottom: usize, size: usize) -> Self {
        Self {
            bottom,
            top: bottom + size - FLAG,
        }
    }

    /// Whether a thread uses the stack.
    #[inline(always)]
    pub(super) fn in_use(self) -> &'static AtomicBool {
        // SAFETY: these are of a stack, by whose end `new` has left room for the flag; zeros are one.
        unsafe { &*(self.top as *const AtomicBool) }
    }
}

impl<const SIZE: usize> Stack<SIZE> {
    /// A stack of zeros. Use [`thread_stack!`](crate::thread_stack).
    ///
    /// # Safety
    /// For a static that a [`Registration`] in section `.takt.stacks` names.
    #[must_use]
    pub const unsafe fn new() -> Self {
        // SAFETY: the caller's duty: this has the stack's address.
        Self(unsafe { GuardedStack::new() })
    }

    /// One past its highest address.
    #[must_use]
    pub fn top(&self) -> usize {
        self.0.top()
    }

    #[inline(always)]
    pub(super) fn parts(&'static self) -> Parts {
        Parts::new(self.0.bottom() as usize, SIZE)
    }
}

/// Where a stack stands in the list that the boot code guards: the address of the stack, whose first page is the guard.
#[repr(transparent)]
pub struct Registration(pub *const u8);

// SAFETY: an address that is only compared and unmapped.
unsafe impl Sync for Registration {}

/// Declares static stacks and has the page below each of them unmapped at boot.
///
/// `thread_stack!(pub static WORKER: [16384; 2]);` declares two, `thread_stack!(static MAIN: 16384);` one.
#[macro_export]
macro_rules! thread_stack {
    ($(#[$meta:meta])* $vis:vis static $name:ident : [$size:expr; $nr:expr]) => {
        $(#[$meta])*
        $vis static $name: [$crate::thread::Stack<{ $size }>; $nr] =
            // SAFETY: registered below.
            [const { unsafe { $crate::thread::Stack::new() } }; $nr];
        const _: () = {
            #[used]
            #[unsafe(link_section = ".takt.stacks")]
            static REGISTRATION: [$crate::thread::Registration; $nr] = {
                let mut list = [const { $crate::thread::Registration(core::ptr::null()) }; $nr];
                let mut i = 0;
                while i < $nr {
                    list[i] = $crate::thread::Registration((&raw const $name[i]).cast());
                    i += 1;
                }
                list
            };
        };
    };
    ($(#[$meta:meta])* $vis:vis static $name:ident : $size:expr) => {
        $(#[$meta])*
        $vis static $name: $crate::thread::Stack<{ $size }> =
            // SAFETY: registered below.
            unsafe { $crate::thread::Stack::new() };
        const _: () = {
            #[used]
            #[unsafe(link_section = ".takt.stacks")]
            static REGISTRATION: $crate::thread::Registration =
                $crate::thread::Registration((&raw const $name).cast());
        };
    };
}

unsafe extern "C" {
    static __stacks_start: Registration;
    static __stacks_end: Registration;
}

/// Calls `f` with the guard page of every declared stack.
pub fn for_each_stack(mut f: impl FnMut(usize)) {
    let start = &raw const __stacks_start;
    let end = &raw const __stacks_end;
    // SAFETY: the linker script puts both symbols around the list.
    let list = unsafe { between(start, end) };
    for registration in list {
        f(registration.0 as usize);
    }
}

/// Declares a static stack without a thread, a [`GuardedStack`](crate::machine::GuardedStack), and has the page below it
/// unmapped at boot.
#[macro_export]
macro_rules! guarded_stack {
    ($(#[$meta:meta])* static $name:ident : $size:expr) => {
        $(#[$meta])*
        static $name: $crate::machine::GuardedStack<{ $size }> =
            // SAFETY: registered below.
            unsafe { $crate::machine::GuardedStack::new() };
        const _: () = {
            #[used]
            #[unsafe(link_section = ".takt.stacks")]
            static REGISTRATION: $crate::thread::Registration =
                $crate::thread::Registration((&raw const $name).cast());
        };
    };
}
