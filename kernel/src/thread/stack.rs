//! Thread stacks: static, each above 64 KiB of addresses that no memory backs.
//!
//! Stacks and their guards lie in a window of the address space that the linker lays out and that no loader fills. The boot code
//! maps each stack there to its memory, which is in `.bss`, by a list that [`thread_stack!`](crate::thread_stack) writes. A stack
//! that is not in it has no memory, so safe code makes none:
//!
//! ```compile_fail,E0133
//! static UNGUARDED: takt_kernel::thread::Stack<4096> = takt_kernel::thread::Stack::new();
//! ```
//! ```compile_fail,E0277
//! static UNGUARDED: takt_kernel::thread::Stack<4096> = Default::default();
//! ```
//! ```compile_fail,E0308
//! takt_kernel::thread_stack!(static GUARDED: 4096);
//! takt_kernel::register_stacks!(core::array::from_ref(&GUARDED), 8192, 1); // more than it has
//! ```
//! Nor does the macro let code be unsafe that does not say so:
//!
//! ```compile_fail,E0133
//! use takt_kernel::thread::Stack;
//! static ANYWHERE: usize = 0;
//! takt_kernel::register_stacks!(core::mem::transmute::<&'static usize, &'static [Stack<4096>; 1]>(&ANYWHERE), 4096, 1);
//! ```
//! Nor does it take attributes, which no lint would look at:
//!
//! ```compile_fail
//! takt_kernel::thread_stack!(#[unsafe(link_section = ".takt.jump_table")] static STACK: 4096);
//! ```
//! Nor does it mind what a path from the root is to the caller, and neither do the others:
//!
//! ```no_run
//! extern crate self as core;
//! takt_kernel::thread_stack!(static GUARDED: 4096);
//! fn is_on() -> bool {
//!     takt_kernel::static_branch!(takt_kernel::trace::events::print::ID)
//! }
//! fn main() {
//!     takt_kernel::trace_marker!("{}", is_on());
//! }
//! ```
//! Nor is there one without memory:
//!
//! ```compile_fail,E0080
//! takt_kernel::thread_stack!(static EMPTY: 0);
//! ```
//! ```no_run
//! takt_kernel::thread_stack!(static GUARDED: 4096);
//! ```

use core::sync::atomic::AtomicBool;

use crate::arch::descriptors::{GUARD, GuardedStack, StackMemory};
use crate::compact::{between, counted, rolled};

/// A thread's stack of `SIZE` bytes (whole pages, at least one). Declare it with [`thread_stack!`](crate::thread_stack).
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
    /// For a static in section `.bss.takt.window` that a [`Registration`] in section `.takt.stacks` names.
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

/// Stacks side by side and their memory, in the list by which they are mapped. The host reads it out of the image.
#[repr(C)]
pub struct Registration {
    /// The first [`GuardedStack`]: its guard.
    stacks: *const u8,
    /// The first [`StackMemory`].
    memory: *const u8,
    /// Bytes of each.
    size: u32,
    nr: u32,
}

// SAFETY: addresses that are only compared and mapped.
unsafe impl Sync for Registration {}

impl Registration {
    /// Of these stacks, each with its piece of memory.
    ///
    /// # Safety
    /// The memory is nobody else's.
    #[must_use]
    pub const unsafe fn new<const SIZE: usize, const NR: usize>(
        stacks: &'static [Stack<SIZE>; NR],
        memory: &'static [StackMemory<SIZE>; NR],
    ) -> Self {
        Self {
            stacks: core::ptr::from_ref(stacks).cast(),
            memory: core::ptr::from_ref(memory).cast(),
            size: SIZE as u32,
            nr: NR as u32,
        }
    }

    /// Of a stack without a thread.
    ///
    /// # Safety
    /// The memory is nobody else's, but where the page tables are not in force yet.
    #[must_use]
    pub const unsafe fn guarded<const SIZE: usize>(
        stack: &'static GuardedStack<SIZE>,
        memory: &'static StackMemory<SIZE>,
    ) -> Self {
        Self {
            stacks: core::ptr::from_ref(stack).cast(),
            memory: core::ptr::from_ref(memory).cast(),
            size: SIZE as u32,
            nr: 1,
        }
    }
}

/// Declares static stacks, each with a guard of 64 KiB below it.
///
/// `thread_stack!(pub static WORKER: [16384; 2]);` declares two, `thread_stack!(static MAIN: 16384);` one.
#[macro_export]
macro_rules! thread_stack {
    ($(#[doc = $doc:expr])* $vis:vis static $name:ident : [$size:expr; $nr:expr]) => {
        $(#[doc = $doc])*
        #[unsafe(link_section = ".bss.takt.window")]
        $vis static $name: [$crate::thread::Stack<{ $size }>; $nr] =
            // SAFETY: registered below.
            [const { unsafe { $crate::thread::Stack::new() } }; $nr];
        $crate::register_stacks!(&$name, $size, $nr);
    };
    ($(#[doc = $doc:expr])* $vis:vis static $name:ident : $size:expr) => {
        $(#[doc = $doc])*
        #[unsafe(link_section = ".bss.takt.window")]
        $vis static $name: $crate::thread::Stack<{ $size }> =
            // SAFETY: registered below.
            unsafe { $crate::thread::Stack::new() };
        $crate::register_stacks!($crate::__core::array::from_ref(&$name), $size, 1);
    };
}

/// Gives declared stacks their memory.
#[doc(hidden)]
#[macro_export]
macro_rules! register_stacks {
    ($stacks:expr, $size:expr, $nr:expr) => {
        const _: () = {
            static MEMORY: [$crate::thread::StackMemory<{ $size }>; $nr] =
                [const { $crate::thread::StackMemory::new() }; $nr];
            #[used]
            #[unsafe(link_section = ".takt.stacks")]
            static REGISTRATION: $crate::thread::Registration = {
                // Not in the block: what is given may be any expression, and is checked as the caller's.
                let stacks = $stacks;
                // SAFETY: nobody else knows the memory.
                unsafe { $crate::thread::Registration::new(stacks, &MEMORY) }
            };
        };
    };
}

unsafe extern "C" {
    static __stacks_start: Registration;
    static __stacks_end: Registration;
}

fn registrations() -> &'static [Registration] {
    let start = &raw const __stacks_start;
    let end = &raw const __stacks_end;
    // SAFETY: the linker script puts both symbols around the list.
    unsafe { between(start, end) }
}

/// Calls `f` with the lowest address of the guard of every declared stack.
pub fn for_each_stack(mut f: impl FnMut(usize)) {
    for it in registrations() {
        for nr in 0..it.nr as usize {
            f(it.stacks as usize + nr * (GUARD + it.size as usize));
        }
    }
}

/// Maps every declared stack: calls `map` with the lowest address of each, that of its memory, and its size.
pub(crate) fn map_stacks(map: &mut impl FnMut(usize, usize, usize)) {
    for it in rolled(registrations()) {
        let (size, stacks, memory) = (it.size as usize, it.stacks as usize, it.memory as usize);
        for nr in counted(it.nr as usize) {
            map(
                stacks + nr * (GUARD + size) + GUARD,
                memory + nr * size,
                size,
            );
        }
    }
}

/// Declares a static stack without a thread, a [`GuardedStack`], and its memory, by the name behind it: what has no page tables yet
/// runs on that.
#[macro_export]
macro_rules! guarded_stack {
    ($(#[doc = $doc:expr])* static $name:ident, $memory:ident : $size:expr) => {
        $(#[doc = $doc])*
        #[unsafe(link_section = ".bss.takt.window")]
        static $name: $crate::thread::GuardedStack<{ $size }> =
            // SAFETY: registered below.
            unsafe { $crate::thread::GuardedStack::new() };
        $(#[doc = $doc])*
        static $memory: $crate::thread::StackMemory<{ $size }> =
            $crate::thread::StackMemory::new();
        const _: () = {
            #[used]
            #[unsafe(link_section = ".takt.stacks")]
            static REGISTRATION: $crate::thread::Registration =
                // SAFETY: who knows the memory uses it before there are page tables.
                unsafe { $crate::thread::Registration::guarded(&$name, &$memory) };
        };
    };
}
