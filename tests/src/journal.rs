//! The order in which things happened: numbers that threads and interrupts note, read by the test at its end.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use heapless::Vec;

/// How many numbers fit; later ones are lost.
pub const CAPACITY: usize = 512;

static NUMBERS: [AtomicU32; CAPACITY] = [const { AtomicU32::new(0) }; CAPACITY];
static LEN: AtomicUsize = AtomicUsize::new(0);

/// Notes a number.
///
/// # Context
/// Any.
pub fn note(number: u32) {
    let at = LEN.fetch_add(1, Relaxed);
    if let Some(place) = NUMBERS.get(at) {
        place.store(number, Relaxed);
    }
}

/// Forgets everything.
pub fn clear() {
    LEN.store(0, Relaxed);
}

/// How many numbers were noted.
#[must_use]
pub fn len() -> usize {
    LEN.load(Relaxed)
}

/// What was noted since the last time, in order.
#[must_use]
pub fn take() -> Vec<u32, CAPACITY> {
    let len = LEN.swap(0, Relaxed);
    NUMBERS
        .iter()
        .take(len)
        .map(|number| number.load(Relaxed))
        .collect()
}
