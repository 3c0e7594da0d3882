//! Where a switch goes on in threads that have not given up the CPU themselves: new ones, and idle threads, which begin anew each time.

unsafe extern "C" {
    fn takt_resume_new();
    fn takt_resume_idle();
}

/// Where an idle thread begins anew.
pub(crate) fn resume_idle() -> usize {
    takt_resume_idle as *const () as usize
}

/// Where a new thread begins.
pub(crate) fn resume_new() -> usize {
    takt_resume_new as *const () as usize
}
