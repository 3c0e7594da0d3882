//! Events of a task's own in the trace.

use takt_tracer::event::Sink;

use crate::syscall;

/// Where a task's events go: to the kernel, one call each.
#[derive(Clone, Copy, Debug)]
pub struct TaskSink;

impl Sink for TaskSink {
    const RARE: bool = true;

    // Of events without context a task has none.
    #[inline(always)]
    fn rec_bytes(word: usize, extra: &[u32], bytes: Option<&[u8]>) {
        Self::rec_bytes_ctx(word, extra, bytes);
    }

    #[inline(always)]
    fn rec_bytes_ctx(word: usize, extra: &[u32], bytes: Option<&[u8]>) {
        let mut words = [0; 4];
        for (number, word) in extra.iter().enumerate() {
            words[number / 2] |= u64::from(*word) << (32 * (number % 2));
        }
        let bytes = bytes.unwrap_or_default();
        let event = u64::from(word as u32) | (bytes.len() as u64) << 32;
        let [a, b, c, d] = words;
        record(event, bytes.as_ptr() as u64, a, b, c, d);
    }
}

/// All in registers, so that a place that is off keeps nothing for it.
#[cold]
#[inline(never)]
extern "C" fn record(event: u64, bytes: u64, a: u64, b: u64, c: u64, d: u64) {
    syscall::trace(event, bytes, [a, b, c, d]);
}

/// A trace point: records the event with these field values if it is on, costs two instructions if not. The values are evaluated
/// only if it is on. The event is declared by [`event!`](crate::event!), with layout `wide`.
///
/// ```ignore
/// takt_user::event! {
///     /// Emitted when the valve has its set point.
///     pub set_point = wide "plant:set_point" { turn: 32 u, value: 16 i }
///     print "turn={turn} value={value}";
/// }
///
/// takt_user::trace_event!(set_point, 7u32, -3i16);
/// ```
#[macro_export]
macro_rules! trace_event {
    ($($event:ident)::+ $(, $value:expr)* $(,)?) => {{
        const {
            $crate::__core::assert!(
                $crate::__core::matches!(
                    <<$($event)::+::Event as $crate::tracer::event::Event>::Class as $crate::tracer::event::EventClass>::LAYOUT,
                    $crate::tracer::event::Layout::Wide
                ),
                "a task's events have layout `wide`"
            );
        }
        if $crate::is_event_on!($($event)::+::ID) {
            <$($event)::+::Event as $crate::tracer::event::Event>::Class::emit::<$crate::TaskSink>(
                <$($event)::+::Event as $crate::tracer::event::Event>::id() $(, $value)*
            );
        }
    }};
}

/// Whether an event is on, by its id: there the kernel keeps a flag.
#[doc(hidden)]
#[macro_export]
macro_rules! is_event_on {
    ($id:path) => {
        'place: {
            // SAFETY: reads a byte of the task's own, and changes the flags only.
            unsafe {
                $crate::__core::arch::asm!(
                    "cmp byte ptr [rip + {flag}], 0",
                    "jne {on}",
                    flag = sym $id,
                    on = label { break 'place true },
                    options(readonly, nostack),
                );
            }
            false
        }
    };
}
