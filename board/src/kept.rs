//! The command line, kept: it lies where the loader put it.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use takt_kernel::config::MAX_COMMAND_LINE;

use crate::loader::Loader;

struct Text(UnsafeCell<[u8; MAX_COMMAND_LINE]>);

// SAFETY: written once at boot.
unsafe impl Sync for Text {}

static COMMAND_LINE: Text = Text(UnsafeCell::new([0; MAX_COMMAND_LINE]));
static LEN: AtomicUsize = AtomicUsize::new(0);

/// Keeps the command line. Once, before there are threads.
///
/// # Panics
/// If it is longer than there is room for. Cut, it would be another one.
pub(crate) fn keep(loader: &Loader<'_>) -> &'static str {
    // SAFETY: once, before there are threads.
    let room = unsafe { &mut *COMMAND_LINE.0.get() };
    let mut len = 0;
    for byte in loader.command_line() {
        if let Some(place) = room.get_mut(len) {
            *place = byte;
        }
        len += 1;
    }
    if len > MAX_COMMAND_LINE {
        panic!(
            "the command line has {len} bytes, more than {MAX_COMMAND_LINE} (TAKT_MAX_COMMAND_LINE)"
        );
    }
    LEN.store(len, Relaxed);
    command_line()
}

/// What was kept; empty if it is no UTF-8.
pub(crate) fn command_line() -> &'static str {
    // SAFETY: written once at boot.
    let text = unsafe { &*COMMAND_LINE.0.get() };
    let text = text.get(..LEN.load(Relaxed)).unwrap_or_default();
    core::str::from_utf8(text).unwrap_or("")
}
