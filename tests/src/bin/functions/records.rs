//! What the tracer `function` writes, and which functions it writes of.

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heapless::Vec;
use takt_kernel::sync::Semaphore;
use takt_kernel::time::{Instant, Nanos, sleep};
use takt_kernel::trace::function::{self, Filter, entry, events};
use takt_kernel::trace::{self, Event, Mode, latency};
use takt_kernel::{Error, preempt, thread};
use takt_tests::drained::drain;
use takt_tests::harness::PRIORITY;
use takt_tests::{check, check_eq, interrupt, target_test, worker};
use takt_tracer::wire;

/// A record of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    /// Blocks of the function and of its caller.
    ip: usize,
    parent: usize,
    /// Preempt-count byte and thread.
    context: u8,
    tid: u8,
    /// Bytes.
    len: usize,
}

#[inline(never)]
pub(crate) fn leaf(number: u32) -> u32 {
    black_box(number) + 1
}

#[inline(never)]
pub(crate) fn other(number: u32) -> u32 {
    black_box(number) + 2
}

#[inline(never)]
pub(crate) fn caller(number: u32) -> u32 {
    // Not a tail call.
    leaf(number) + black_box(1)
}

pub(crate) fn address(function: fn(u32) -> u32) -> usize {
    function as usize
}

fn block(address: usize) -> usize {
    (address - entry::image_start()) / entry::BLOCK
}

static GO: Semaphore = Semaphore::new(0, 1);
static LEFT: Semaphore = Semaphore::new(0, 1);
static DELAY: AtomicU64 = AtomicU64::new(0);

/// Leaves the current tracer, so much later, each time that it is told to.
fn leaves(_: usize) {
    while GO.take().is_ok() && DELAY.load(Relaxed) != u64::MAX {
        let _ = sleep(Nanos::new(DELAY.load(Relaxed)));
        let _ = trace::set_tracer("nop");
        let _ = LEFT.give();
    }
}

fn without_irqs(instructions: u64) {
    let guard = preempt::irq_save();
    worker::burn(instructions);
    guard.restore();
}

#[inline(never)]
fn begin(filter: &[usize]) -> Result<(), Error> {
    finish()?;
    trace::set_mode(Mode::StopWhenFull);
    function::set_filter(&Filter::of_addresses(filter))?;
    function::start()?;
    trace::tracing_on();
    Ok(())
}

/// Ends tracing and gives what this CPU's ring has of functions.
#[inline(never)]
fn finish() -> Result<Vec<Call, 64>, Error> {
    trace::tracing_off();
    function::stop()?;
    function::set_filter(&Filter::ALL)?;
    function::set_notrace(&Filter::NONE)?;
    function::set_pids(&[])?;
    trace::close(0)?;
    let mut calls = Vec::new();
    drain(0, |sub| {
        calls_in(sub, &mut calls);
    });
    Ok(calls)
}

fn calls_in(sub: &[u8], calls: &mut Vec<Call, 64>) {
    let short = events::function::Event::id().number();
    let long = events::function_context::Event::id().number();
    let word = |at: usize| {
        let bytes = sub.get(at..at + 4).unwrap_or(&[0; 4]);
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    let mut at = wire::SUB_HEADER as usize;
    let (mut context, mut tid) = (0, 0);
    while at + 8 <= sub.len() {
        let record = word(at + 4);
        let (len, blocks) = match wire::event_of(record).id() {
            0 => break,
            id if id == short => (8, record >> 8),
            id if id == long => {
                [_, _, context, tid] = record.to_le_bytes();
                (12, word(at + 8))
            }
            _ => (wire::CLOCK_LEN as usize, u32::MAX),
        };
        at += len;
        if blocks != u32::MAX {
            let _ = calls.push(Call {
                ip: (blocks & 0xfff) as usize,
                parent: (blocks >> 12) as usize,
                context,
                tid,
                len,
            });
        }
    }
}

/// The function that an address in a caller's block belongs to: the nearest that begins before.
fn function_at(block: usize) -> usize {
    let address = entry::image_start() + (block + 1) * entry::BLOCK - 1;
    let entries = entry::entries();
    entries[entries.partition_point(|start| *start <= address) - 1]
}

fn calls_leaf(_: usize) {
    leaf(1);
}

target_test! {
    /// The list is in order, every function begins a block of its own, and nothing is patched while no one asks.
    fn the_list_of_functions(Shared) {
        finish()?;
        let entries = entry::entries();
        check!(entries.len() > 50, "only {} functions", entries.len());
        check!(entries.is_sorted_by(|a, b| a < b));
        check!(entries.iter().all(|address| address.is_multiple_of(entry::BLOCK)));
        check!(entries.contains(&address(leaf)));
        check_eq!(function::id_of(address(leaf)).map(|id| entries[id]), Some(address(leaf)));
        check_eq!(function::id_of(address(leaf) + 1), None);
        check_eq!(entry::nr_patched(), 0);
        Ok(())
    }

    /// All functions but those that must not be traced.
    fn what_must_not_be_traced_is_not_patched(Shared) {
        finish()?;
        function::start()?;
        let nr_not = entry::entries().iter().filter(|address| !entry::is_traceable(**address)).count();
        let patched = entry::nr_patched();
        function::stop()?;
        check!(nr_not > 0);
        check_eq!(patched + nr_not, entry::entries().len());
        check_eq!(entry::nr_patched(), 0);
        Ok(())
    }

    /// A tracer of latencies has functions recorded if that is wanted, as long as it is the current one, and leaves alone
    /// what the application has begun itself.
    fn beside_tracers_of_latencies(Shared) {
        finish()?;
        let patched = |name: &str| -> Result<usize, Error> {
            trace::set_tracer(name)?;
            Ok(entry::nr_patched())
        };
        function::start()?;
        let all = entry::nr_patched();
        check_eq!([patched("irqsoff")?, patched("nop")?], [all; 2]);
        function::stop()?;
        check_eq!(patched("wakeup")?, 0);
        for on in [true, false, true] {
            function::set_function_trace(on)?;
            check_eq!(entry::nr_patched(), if on { all } else { 0 });
        }
        check_eq!([patched("nop")?, patched("preemptirqsoff")?, patched("nop")?], [0, all, 0]);
        function::set_function_trace(false)?;
        Ok(())
    }

    /// No tracer of latencies listens that was left while functions were chosen, whenever that is.
    fn one_is_left_while_functions_are_chosen(Shared) {
        finish()?;
        trace::tracing_on();
        let filter = Filter::of_addresses(&[address(leaf)]);
        let before = Instant::now();
        function::set_filter(&filter)?;
        let most = (Instant::now() - before).to_nanos().get();
        let other = worker::spawn(0, PRIORITY + 1, leaves, 0)?;
        for delay in (0..most).step_by(most as usize / 150) {
            trace::set_tracer("irqsoff")?;
            DELAY.store(delay, Relaxed);
            GO.give()?;
            function::set_filter(&filter)?;
            LEFT.take()?;
            let longest = || latency::last().map_or(0, |latency| latency.cycles);
            let before = longest();
            without_irqs(before + 1_000);
            check_eq!(longest(), before);
        }
        DELAY.store(u64::MAX, Relaxed);
        GO.give()?;
        worker::join(&[other])?;
        finish()?;
        Ok(())
    }

    /// A record names the function, its caller, the thread and the context, in 8 bytes where the context is that of the
    /// record before.
    fn a_call_is_recorded(Shared) {
        begin(&[address(leaf)])?;
        // The first opens a sub-buffer, the second says the context in it, the third relies on that.
        caller(1);
        caller(2);
        caller(3);
        {
            let _guard = preempt::disable();
            caller(4);
        }
        let calls = finish()?;
        let me = thread::current().id();
        for call in &calls {
            check_eq!(call.ip, block(address(leaf)));
            check_eq!(function_at(call.parent), address(caller));
            check_eq!(call.tid, me);
        }
        let lens: Vec<_, 8> = calls.iter().map(|call| call.len).collect();
        check_eq!(lens.as_slice(), [12, 12, 8, 12]);
        check_eq!((calls[2].context, calls[3].context), (0xc0, 0xc1));
        Ok(())
    }

    /// In an interrupt it says so, and the thread's next record does not say it any more.
    fn a_call_in_an_interrupt(Shared) {
        begin(&[address(leaf)])?;
        leaf(1);
        interrupt::raise(|| { leaf(2); });
        leaf(3);
        let calls = finish()?;
        check_eq!(calls.len(), 3);
        check_eq!((calls[0].context, calls[1].context, calls[2].context), (0xc0, 0x90, 0xc0));
        Ok(())
    }

    /// Only what the filter has, and of that not what is not to be traced.
    fn filters(Shared) {
        begin(&[address(leaf), address(other)])?;
        caller(1);
        other(1);
        function::set_notrace(&Filter::of_addresses(&[address(leaf)]))?;
        caller(2);
        other(2);
        let calls = finish()?;
        let ips: Vec<_, 8> = calls.iter().map(|call| call.ip).collect();
        check_eq!(ips.as_slice(), [block(address(leaf)), block(address(other)), block(address(other))]);
        Ok(())
    }

    /// Only the calls of these threads.
    fn threads(Shared) {
        begin(&[address(leaf)])?;
        let thread = worker::create(0, PRIORITY + 1, calls_leaf, 0)?;
        function::set_pids(&[thread.id()])?;
        leaf(1);
        thread.start()?;
        leaf(2);
        worker::join(&[thread])?;
        let calls = finish()?;
        check_eq!(calls.len(), 1);
        check_eq!(calls[0].tid, thread.id());
        Ok(())
    }

    /// Recording off: nothing is written and nothing is counted as lost.
    fn recording_off(Shared) {
        begin(&[address(leaf)])?;
        trace::tracing_off();
        let before = trace::counters_of(0);
        caller(1);
        check_eq!(trace::counters_of(0), before);
        trace::tracing_on();
        caller(2);
        check_eq!(finish()?.len(), 1);
        Ok(())
    }

    /// Every sub-buffer begins with a record that names the context, so that a reader may begin anywhere.
    fn each_sub_buffer_begins_with_a_context(Shared) {
        begin(&[address(leaf)])?;
        for number in 0..5_000 {
            leaf(number);
        }
        trace::tracing_off();
        function::stop()?;
        trace::close(0)?;
        let (mut nr, mut firsts) = (0, 0);
        drain(0, |sub| {
            let mut calls = Vec::new();
            calls_in(sub, &mut calls);
            nr += 1;
            firsts += usize::from(calls.first().is_some_and(|call| call.len == 12 && call.context == 0xc0));
        });
        check!(nr >= 9, "{nr} sub-buffers");
        check_eq!(firsts, nr);
        finish()?;
        Ok(())
    }
}
