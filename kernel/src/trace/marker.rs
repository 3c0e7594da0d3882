//! Markers: texts of the application's own in a trace.

use crate::probe::Event;
use crate::probe::events;
use crate::probe::sink::KernelSink;

/// Records a text of the application's own, as writing to ftrace's `trace_marker` does.
///
/// # Context
/// Any, NMI included.
#[inline]
pub fn marker(text: &str) {
    crate::trace_event!(events::print, text.as_bytes());
}

/// Records a text of the application's own, with values in it as in `format!`: [`marker`] in a macro's form (Linux:
/// `trace_printk`). The text is made only while markers are on; what does not fit into a record is cut.
///
/// # Context
/// Any, NMI included; the stack has to have room for the text, a little more than
/// [`MAX_BYTES`](takt_tracer::wire::MAX_BYTES).
#[macro_export]
macro_rules! trace_marker {
    ($($text:tt)+) => {
        if $crate::static_branch!($crate::trace::events::print::ID) {
            $crate::trace::format_marker($crate::__core::format_args!($($text)+));
        }
    };
}

/// What [`trace_marker!`](crate::trace_marker) records while markers are on.
///
/// # Context
/// As [`trace_marker!`](crate::trace_marker).
#[doc(hidden)]
#[cold]
pub fn format_marker(text: core::fmt::Arguments<'_>) {
    if let Some(text) = text.as_str() {
        return record_marker(text);
    }
    let mut out = Text::new();
    // What does not fit is cut.
    let _ = core::fmt::write(&mut Cut(&mut out), text);
    record_marker(&out);
}

/// A text, with room for one character more than is recorded: by it a reader knows that it was cut.
type Text = heapless::String<{ takt_tracer::wire::MAX_BYTES + 4 }>;

/// Takes what fits, to the character.
struct Cut<'s>(&'s mut Text);

impl core::fmt::Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        text.chars()
            .try_for_each(|c| self.0.push(c).map_err(|_| core::fmt::Error))
    }
}

/// As [`marker`], whether the event is on or not: what a host writes to `trace_marker` is always wanted.
///
/// # Context
/// Any, NMI included.
pub fn record_marker(text: &str) {
    use events::print::Event as Marker;
    <Marker as Event>::Class::emit::<KernelSink>(<Marker as Event>::id(), text.as_bytes());
}
