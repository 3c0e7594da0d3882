//! The tracer `function_graph`: entries and returns that belong to each other.

use core::hint::black_box;

use heapless::Vec;
use takt_kernel::config::GRAPH_DEPTH;
use takt_kernel::time::{Nanos, sleep};
use takt_kernel::trace::function::graph::graph_counters;
use takt_kernel::trace::function::{self, Filter, entry, events};
use takt_kernel::trace::{self, Event, Mode};
use takt_kernel::{Error, thread};
use takt_tests::drained::{close, drain};
use takt_tests::harness::{Failure, PRIORITY};
use takt_tests::{check, check_eq, interrupt, target_test, worker};
use takt_tracer::wire;

use crate::records::{address, caller, leaf, other};

/// Entry or return of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) is_entry: bool,
    pub(crate) ip: usize,
    pub(crate) depth: u32,
    pub(crate) is_irq: bool,
    pub(crate) tid: u8,
    /// As every record has it: preempt-count byte, and in the upper half the running thread.
    pub(crate) context: u16,
}

#[inline(never)]
pub(crate) fn begin(filter: &[usize]) -> Result<(), Error> {
    finish()?;
    trace::set_mode(Mode::StopWhenFull);
    function::set_filter(&Filter::of_addresses(filter))?;
    function::start_graph()?;
    trace::tracing_on();
    Ok(())
}

#[inline(never)]
pub(crate) fn finish() -> Result<Vec<Step, 128>, Error> {
    trace::tracing_off();
    function::stop()?;
    function::set_filter(&Filter::ALL)?;
    function::set_graph_functions(None)?;
    function::set_graph_notrace(&Filter::NONE)?;
    function::set_max_graph_depth(0);
    let mut steps = Vec::new();
    take(&mut |step| {
        // What is more is not looked at.
        let _ = steps.push(step);
    });
    Ok(steps)
}

/// Gives away what was recorded of functions on this CPU, while recording is off.
#[inline(never)]
pub(crate) fn take(step: &mut dyn FnMut(Step)) {
    close();
    drain(0, |sub| {
        steps_in(sub, step);
    });
}

fn steps_in(sub: &[u8], step: &mut dyn FnMut(Step)) {
    let ids = [
        events::funcgraph_entry::Event::id().number(),
        events::funcgraph_exit::Event::id().number(),
    ];
    let word = |at: usize| {
        let bytes = sub.get(at..at + 4).unwrap_or(&[0; 4]);
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    let mut at = wire::SUB_HEADER as usize;
    while at + 12 <= sub.len() {
        let (record, extra) = (word(at + 4), word(at + 8));
        let id = wire::event_of(record).id();
        if id == 0 {
            break;
        }
        if ids.contains(&id) {
            step(Step {
                is_entry: id == ids[0],
                ip: entry::image_start() + (extra & 0xfff) as usize * entry::BLOCK,
                depth: record >> 8 & 0x7f,
                is_irq: record >> 15 & 1 != 0,
                tid: (extra >> 12) as u8,
                context: (record >> 16) as u16,
            });
        }
        // No other record has another length here.
        at += 12;
    }
}

/// Whether steps are about what they should be.
#[track_caller]
#[inline(never)]
pub(crate) fn check_steps(steps: &[Step], expected: &[(bool, usize, u32)]) -> Result<(), Failure> {
    let found = plain(steps);
    if found.as_slice() != expected {
        return Err(Failure::new(format_args!(
            "{found:x?} is not {expected:x?}"
        )));
    }
    Ok(())
}

/// What a step is about, for comparing.
#[inline(never)]
pub(crate) fn plain(steps: &[Step]) -> Vec<(bool, usize, u32), 128> {
    steps
        .iter()
        .map(|step| (step.is_entry, step.ip, step.depth))
        .collect()
}

#[inline(never)]
pub(crate) fn outer(number: u32) -> u32 {
    caller(number) + other(number) + black_box(1)
}

/// As many calls within each other as `number` says.
#[inline(never)]
fn nested(number: u32) -> u32 {
    if number == 0 {
        return 0;
    }
    nested(black_box(number - 1)) + black_box(1)
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Large([u64; 6]);

#[inline(never)]
fn pair(number: u64) -> (u64, u64) {
    (black_box(number), number + 1)
}

#[inline(never)]
fn wide(number: u64) -> u128 {
    u128::from(black_box(number)) << 64 | 7
}

#[inline(never)]
fn real(number: f64, factor: f64) -> f64 {
    black_box(number) * factor
}

#[inline(never)]
fn large(number: u64) -> Large {
    Large([black_box(number); 6])
}

pub(crate) fn nests(_: usize) {
    outer(1);
}

target_test! {
    /// Each entry has its return, at the same depth, in the right order.
    fn entries_and_returns_are_nested(Shared) {
        let [a, b, c, d] = [outer, caller, leaf, other].map(address);
        begin(&[a, b, c, d])?;
        let result = outer(1);
        let steps = finish()?;
        check_eq!(result, 7);
        let expected = [
            (true, a, 0), (true, b, 1), (true, c, 2), (false, c, 2), (false, b, 1), (true, d, 1), (false, d, 1),
            (false, a, 0),
        ];
        check_steps(&steps, &expected)?;
        let me = thread::current().id();
        check!(steps.iter().all(|step| step.tid == me && !step.is_irq));
        Ok(())
    }

    /// `max_graph_depth`: what is nested deeper is left out.
    fn not_deeper_than_asked_for(Shared) {
        let [a, b, c] = [outer, caller, leaf].map(address);
        begin(&[a, b, c])?;
        function::set_max_graph_depth(2);
        outer(1);
        let steps = finish()?;
        check_steps(&steps, &[(true, a, 0), (true, b, 1), (false, b, 1), (false, a, 0)])?;
        Ok(())
    }

    /// `set_graph_function`: nothing but these and what they call. `set_graph_notrace`: neither these nor what they call.
    fn where_the_graph_begins_and_ends(Shared) {
        let [a, b, c, d] = [outer, caller, leaf, other].map(address);
        begin(&[a, b, c, d])?;
        function::set_graph_functions(Some(&Filter::of_addresses(&[b])))?;
        outer(1);
        let steps = finish()?;
        check_steps(&steps, &[(true, b, 0), (true, c, 1), (false, c, 1), (false, b, 0)])?;
        begin(&[a, b, c, d])?;
        function::set_graph_notrace(&Filter::of_addresses(&[b]))?;
        outer(1);
        let steps = finish()?;
        check_steps(&steps, &[(true, a, 0), (true, d, 1), (false, d, 1), (false, a, 0)])?;
        Ok(())
    }

    /// An interrupt's functions are on a stack of their own.
    fn an_interrupt_in_between(Shared) {
        let [a, c] = [caller, leaf].map(address);
        begin(&[a, c])?;
        interrupt::raise(|| { caller(1); });
        caller(2);
        let steps = finish()?;
        check_eq!(steps.len(), 8);
        check!(steps[..4].iter().all(|step| step.is_irq) && steps[4..].iter().all(|step| !step.is_irq));
        check_steps(&steps[..4], &plain(&steps[4..]))?;
        Ok(())
    }

    /// Threads that preempt each other: each has its own depth.
    fn threads_in_between(Shared) {
        let [a, b, c, d] = [outer, caller, leaf, other].map(address);
        let thread = worker::create(0, PRIORITY + 1, nests, 0)?;
        begin(&[a, b, c, d])?;
        thread.start()?;
        outer(1);
        worker::join(&[thread])?;
        let steps = finish()?;
        check_eq!(steps.len(), 16);
        check_steps(&steps[..8], &plain(&steps[8..]))?;
        check_eq!((steps[0].tid, steps[8].tid), (thread.id(), thread::current().id()));
        Ok(())
    }

    /// Whatever a function returns comes through.
    fn results_are_kept(Shared) {
        // Bits: to print floating-point numbers takes more code than there is room for.
        let all = |number: u64| (pair(number), wide(number), real(number as f64, 1.5).to_bits(), large(number));
        let before = all(12);
        begin(&[pair as fn(u64) -> _ as usize, wide as fn(u64) -> _ as usize, real as fn(f64, f64) -> _ as usize,
            large as fn(u64) -> _ as usize])?;
        let after = all(12);
        let steps = finish()?;
        check_eq!(steps.len(), 8);
        check!(before == after, "{before:?} became {after:?}");
        Ok(())
    }

    /// More calls within each other than the shadow stack has room for are counted, and all return.
    fn too_deep(Shared) {
        let before = graph_counters();
        let deep = GRAPH_DEPTH as u32 + 10;
        begin(&[address(nested)])?;
        let result = nested(deep);
        let steps = finish()?;
        check_eq!(result, deep);
        check_eq!(graph_counters().overrun - before.overrun, 11);
        check_eq!(steps.len(), 2 * GRAPH_DEPTH);
        check_eq!(graph_counters().missed_returns, before.missed_returns);
        Ok(())
    }

    /// Functions that are under way when the graph is switched off return as they would.
    fn switched_off_meanwhile(Shared) {
        #[inline(never)]
        fn switches_off(number: u32) -> u32 {
            let ok = function::stop().is_ok();
            black_box(number) + u32::from(ok)
        }
        begin(&[address(switches_off)])?;
        let result = switches_off(1);
        let steps = finish()?;
        check_eq!((result, steps.len()), (2, 1));
        Ok(())
    }

    /// Every function, with threads that wait, interrupts that wake them and idle threads that begin anew.
    fn every_function(Shared) {
        finish()?;
        trace::set_mode(Mode::Overwrite);
        function::start_graph()?;
        trace::tracing_on();
        for number in 0..200 {
            sleep(Nanos::from_micros(10))?;
            if number % 10 == 0 {
                let thread = worker::spawn(0, PRIORITY + 1, nests, 0)?;
                worker::join(&[thread])?;
            }
        }
        trace::tracing_off();
        function::stop()?;
        let counters = graph_counters();
        check!(counters.missed_returns > 0, "threads end and the idle thread begins anew: {counters:?}");
        finish()?;
        Ok(())
    }
}
