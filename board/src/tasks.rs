//! The image's protected tasks, as xtask has packed them.

mod packed {
    include!(concat!(env!("OUT_DIR"), "/tasks.rs"));

    pub(super) fn all() -> &'static [Task] {
        &TASKS
    }
}

/// Introduces them to the kernel.
///
/// # Safety
/// Once, after [`boot::memory`](takt_kernel::boot::memory).
pub(crate) unsafe fn install() {
    // SAFETY: the caller's duty; xtask gives each task memory, a region and a stack of its own.
    unsafe { takt_kernel::task::install(packed::all()) };
}
