//! A stack behind every function that the tracer `function` records.

use core::hint::black_box;

use heapless::Vec;
use takt_kernel::Error;
use takt_kernel::time::{self, Nanos};
use takt_kernel::trace::function::{self, Filter, events};
use takt_kernel::trace::stack::kernel_stack;
use takt_kernel::trace::{self, Event, Mode};
use takt_tests::drained::drain;
use takt_tests::{check, check_eq, interrupt, target_test};
use takt_tracer::wire;

use crate::records::{address, caller, leaf};

/// What the ring has: a function, or a stack's first three calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Function,
    Stack([usize; 3]),
}

fn begin(filter: &Filter) -> Result<(), Error> {
    finish()?;
    trace::set_mode(Mode::StopWhenFull);
    function::set_filter(filter)?;
    function::set_stack_trace(true)?;
    function::start()?;
    trace::tracing_on();
    Ok(())
}

fn finish() -> Result<Vec<Entry, 16>, Error> {
    trace::tracing_off();
    function::stop()?;
    function::set_stack_trace(false)?;
    function::set_filter(&Filter::ALL)?;
    trace::close(0)?;
    let mut entries = Vec::new();
    let id = |event: takt_tracer::event::Id| event.number();
    drain(0, |sub| {
        let word = |at: usize| {
            let bytes = sub.get(at..at + 4).unwrap_or(&[0; 4]);
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        let mut at = wire::SUB_HEADER as usize;
        while at + 8 <= sub.len() {
            let (len, entry) = match wire::event_of(word(at + 4)).id() {
                0 => break,
                it if it == id(events::function::Event::id()) => (8, Some(Entry::Function)),
                it if it == id(events::function_context::Event::id()) => {
                    (12, Some(Entry::Function))
                }
                it if it == id(kernel_stack::Event::id()) => {
                    let calls = [0, 1, 2].map(|number| word(at + 12 + 4 * number) as usize);
                    (12 + word(at + 8) as usize, Some(Entry::Stack(calls)))
                }
                _ => (wire::CLOCK_LEN as usize, None),
            };
            at += len;
            // What is more is not looked at.
            let _ = entry.map(|entry| entries.push(entry));
        }
    });
    Ok(entries)
}

#[inline(never)]
fn outermost(number: u32) -> u32 {
    caller(number) + black_box(1)
}

target_test! {
    /// The function itself, who called it, and who called that.
    fn a_stack_behind_every_record(Shared) {
        begin(&Filter::of_addresses(&[address(leaf)]))?;
        outermost(1);
        interrupt::raise(|| { outermost(2); });
        let entries = finish()?;
        check_eq!(entries.len(), 4);
        for pair in entries.chunks(2) {
            let [Entry::Function, Entry::Stack([function, parent, grandparent])] = *pair else {
                check!(false, "{pair:x?}");
                continue;
            };
            check_eq!(function, address(leaf));
            check!(parent - address(caller) < 64, "called at {parent:#x}");
            check!(grandparent - address(outermost) < 64, "called at {grandparent:#x}");
        }
        outermost(1);
        check_eq!(function::entry::nr_patched(), 0);
        Ok(())
    }

    /// Every function of a system at work: nothing recurs, and none of the tracer's own is recorded.
    fn behind_every_function(Shared) {
        begin(&Filter::ALL)?;
        for _ in 0..20 {
            time::sleep(Nanos::from_micros(100))?;
        }
        let entries = finish()?;
        check_eq!(entries.len(), 16);
        let functions = entries.iter().filter(|entry| **entry == Entry::Function).count();
        check!((7..=9).contains(&functions), "{entries:x?}");
        Ok(())
    }
}
