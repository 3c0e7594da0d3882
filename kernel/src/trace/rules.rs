//! Rules over records: what is asked before a record is made, and told after it.
//!
//! While a pair of functions is registered here, the record functions are diverted
//! (`arch::divert_records`); while none is, they cost nothing more. [`events`] registers itself
//! while an event has a filter or a trigger.

pub mod events;

use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::Error;
use crate::arch::divert_records::divert_records;
use crate::arch::jump_label::Writable;
use crate::arch::stop::Text;

/// A record that is about to be made.
#[repr(C)]
#[derive(Debug)]
pub struct Arguments {
    /// Its word as it will be written (id, fields, and the context where the layout has one), then the extra words. What is
    /// behind them means nothing. Of a near event's time both words are there, whatever will be written of it.
    pub words: [u32; 9],
    /// How many of the extra words there are.
    pub nr: u32,
    /// The dynamic field; null if there is none.
    pub text: *const u8,
    /// Its length in bytes, as it was given.
    pub len: usize,
}

impl Arguments {
    /// The word.
    #[must_use]
    pub const fn word(&self) -> u32 {
        self.words[0]
    }

    /// The word and the extra words.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        self.words.get(..=self.nr as usize).unwrap_or(&self.words)
    }

    /// The extra words.
    #[must_use]
    pub fn extra(&self) -> &[u32] {
        self.words().get(1..).unwrap_or_default()
    }

    /// The dynamic field.
    #[must_use]
    pub fn text(&self) -> Option<&[u8]> {
        // SAFETY: the text that the record is made of.
        (!self.text.is_null()).then(|| unsafe { core::slice::from_raw_parts(self.text, self.len) })
    }
}

/// Asked before a record is made: bit 0 says that it is to be made; if other bits are set, [`After`] is told of them.
///
/// Runs wherever the event is emitted: threads, interrupts, NMIs, with interrupts on or off. An event that it emits itself is
/// asked about like any other, and comes before.
pub type Before = fn(&Arguments) -> u32;
/// Told after the record, or the refusal, what [`Before`] said.
pub type After = fn(u32);

static BEFORE: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static AFTER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Has these functions asked and told of every record from now on.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// Threads that may block.
pub fn register(before: Before, after: After) -> Result<(), Error> {
    // SAFETY: every other CPU stands still.
    Text::lock()?.patch(|text| unsafe { divert(text, before, after) });
    Ok(())
}

/// # Safety
/// Every other CPU stands still.
unsafe fn divert(text: &mut Writable, before: Before, after: After) {
    BEFORE.store(before as *mut (), Relaxed);
    AFTER.store(after as *mut (), Relaxed);
    // SAFETY: the caller's duty.
    unsafe { divert_records(text, true) };
}

/// No one is asked any more. Who was asked before may still be running in a thread that was preempted there.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// Threads that may block.
pub fn unregister() -> Result<(), Error> {
    // SAFETY: every other CPU stands still.
    Text::lock()?.patch(|text| unsafe { divert_records(text, false) });
    Ok(())
}

/// Called by the diverted record functions before a record.
pub(crate) extern "C" fn before(record: &Arguments) -> u32 {
    let before = BEFORE.load(Relaxed);
    // SAFETY: only a `Before` is stored there, before the functions are diverted.
    unsafe { core::mem::transmute::<*mut (), Before>(before)(record) }
}

/// Called by the diverted record functions after a record, or its refusal.
pub(crate) extern "C" fn after(result: u32) {
    let after = AFTER.load(Relaxed);
    // SAFETY: only an `After` is stored there, before the functions are diverted.
    unsafe { core::mem::transmute::<*mut (), After>(after)(result) };
}
