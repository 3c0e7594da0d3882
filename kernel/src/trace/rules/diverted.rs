//! Having every record looked at before it is made.

pub use crate::arch::divert_records::{After, Arguments, Before};

use crate::arch::divert_records::divert;
use crate::arch::jump_label::Writable;
use crate::arch::stop::Text;
use crate::error::Error;

/// Has these functions asked and told of every record from now on.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// Threads that may block.
///
/// # Safety
/// Both run wherever an event is emitted: in NMIs, and inside the kernel's sections, where what these protect may be half
/// changed. So they call nothing of the kernel's but trace points, and take no lock that a thread or an interrupt takes. No event has
/// a filter or a trigger meanwhile.
pub unsafe fn register(before: Before, after: After) -> Result<(), Error> {
    Text::lock()?.patch(|text| set(text, Some((before, after))));
    Ok(())
}

/// No one is asked any more. Who was asked before may still be running in a thread that was preempted there.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// Threads that may block.
///
/// # Safety
/// Those that are asked are the caller's, by [`register`]. While an event has a filter or a trigger, or is recorded of some threads
/// only, they are [`events`](super::events)': nobody would go by those any more.
pub unsafe fn unregister() -> Result<(), Error> {
    Text::lock()?.patch(|text| set(text, None));
    Ok(())
}

/// Says who is asked and told.
pub(super) fn set(text: &mut Writable, to: Option<(Before, After)>) {
    divert(text, to);
    // It has no need of the record functions otherwise.
    #[cfg(feature = "function")]
    crate::trace::function::settings::records_are_judged(to.is_some());
}
