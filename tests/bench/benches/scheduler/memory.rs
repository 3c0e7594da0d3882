//! The memory of what is measured: its bytes lie together, so that they can be thrown out of the caches.

use std::alloc::{GlobalAlloc, Layout, System};
use std::arch::x86_64::{_mm_clflush, _mm_mfence};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

const SIZE: usize = 4 << 20;
const LINE: usize = 64;

#[repr(align(4096))]
struct Arena(UnsafeCell<[u8; SIZE]>);

// SAFETY: handed out in pieces, each once; and the benchmark has one thread.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; SIZE]));
static USED: AtomicUsize = AtomicUsize::new(0);
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The system's allocator, or the arena while [`inside`] one. There an allocation is an addition: what the structures that
/// allocate take is the least that it can be.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn base() -> usize {
    ARENA.0.get() as usize
}

// SAFETY: pieces of the arena are aligned, do not overlap and are not given out again while they are in use.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !IS_ON.load(Relaxed) {
            // SAFETY: the caller's duty.
            return unsafe { System.alloc(layout) };
        }
        let at = USED.load(Relaxed).next_multiple_of(layout.align().max(16));
        if at + layout.size() > SIZE {
            return std::ptr::null_mut();
        }
        USED.store(at + layout.size(), Relaxed);
        (base() + at) as *mut u8
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if !(base()..base() + SIZE).contains(&(at as usize)) {
            // SAFETY: the caller's duty: it is the system's.
            unsafe { System.dealloc(at, layout) };
        }
    }
}

/// Runs `act`, whose allocations come from the arena. None of them may outlive it.
pub fn inside<R>(act: impl FnOnce() -> R) -> R {
    USED.store(0, Relaxed);
    IS_ON.store(true, Relaxed);
    let result = act();
    IS_ON.store(false, Relaxed);
    result
}

/// Throws all that was allocated inside out of the caches.
pub fn flush() {
    let end = base() + USED.load(Relaxed);
    for line in (base()..end).step_by(LINE) {
        // SAFETY: in the arena.
        unsafe { _mm_clflush(line as *const u8) };
    }
    // SAFETY: SSE2 is part of the architecture.
    unsafe { _mm_mfence() };
}
