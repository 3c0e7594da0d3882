//! The latency tracers: stretches of known length, planted, and found with their length and places.

mod counted;
mod nmi;
mod once;
mod planted;

use core::hint::black_box;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use spin::Once;

use takt_kernel::sync::Semaphore;
use takt_kernel::thread::Thread;
use takt_kernel::time::sleep_until;
use takt_kernel::time::{Cycles, Expiry, Instant, Nanos, Timer};
use takt_kernel::trace::latency::{self, Latency};
use takt_kernel::trace::{self, Event, events, hwlat, set_tracer, tracers};
use takt_kernel::{Error, irq, machine, preempt, thread};
use takt_tests::harness::{Failure, PRIORITY};
use takt_tests::worker::{after_us, burn, join, spawn};
use takt_tests::{check, check_eq, check_err, interrupt, note, target_test};

use planted::{is_in, nested, overlapping, without_either, without_irqs, without_preemption};

/// Longer than any stretch of the kernel's own on the way, in instructions.
const LONG: u64 = 20_000;

/// Chooses a tracer and starts recording, without which it keeps nothing; `nop` stops it.
fn choose(name: &str) -> Result<(), Error> {
    let is_nop = name == "nop";
    if !is_nop {
        trace::tracing_on();
    }
    set_tracer(name)?;
    if is_nop {
        trace::tracing_off();
    }
    Ok(())
}

/// The longest stretch while `act` runs under a tracer.
fn longest(name: &str, act: impl FnOnce()) -> Result<Latency, Failure> {
    choose(name)?;
    act();
    let last = latency::last();
    choose("nop")?;
    match last {
        Some(latency) => Ok(latency),
        None => Err(Failure::new(format_args!("{name} has kept nothing"))),
    }
}

/// A stretch of a known length within a function: both lengths are found, and what the guards add to them is the same
/// and little.
fn is_exact(name: &str, plant: fn(u64), times: u64) -> Result<(), Failure> {
    let [short, long] = [LONG, LONG + 1000].map(|length| {
        longest(name, || black_box(plant)(length)).map(|found| (found.cycles, found))
    });
    let ((short, found), (long, _)) = (short?, long?);
    check_eq!(long - short, 1000 * times);
    check!(
        short >= LONG * times && short <= LONG * times + 32 * times,
        "{short} instructions"
    );
    check!(
        is_in(found.started_at, plant as usize),
        "it began elsewhere: {found:x?}"
    );
    check!(
        is_in(found.ended_at, plant as usize),
        "it ended elsewhere: {found:x?}"
    );
    check!(found.ended_at > found.started_at, "{found:x?}");
    check_eq!(found.tid, takt_kernel::thread::current().id());
    Ok(())
}

static AT: AtomicU64 = AtomicU64::new(0);
static GO: Semaphore = Semaphore::new(0, 10);

static GIVES: AtomicBool = AtomicBool::new(false);
static TIMER: Once<Timer> = Once::new();

/// A timer's function that takes as long as [`AT`] says, and then wakes whoever waits if [`GIVES`] says so.
fn lingering(_: usize, _: Expiry) {
    burn(AT.load(Relaxed));
    if GIVES.load(Relaxed) {
        let _ = GO.give();
    }
}

/// Lets one interrupt come that takes so many instructions, while this thread goes round.
fn interrupted(instructions: u64, gives: bool) {
    AT.store(instructions, Relaxed);
    GIVES.store(gives, Relaxed);
    lingering_timer().arm(after_us(20));
    burn(60_000);
}

fn lingering_timer() -> &'static Timer {
    TIMER.call_once(|| Timer::new(lingering, 0).expect("there are timers left"))
}

fn parked(_: usize) {
    let _ = thread::park(Instant::NEVER);
}

fn waiter(_: usize) {
    let _ = GO.take();
}

static INTERRUPTED: Once<Thread> = Once::new();

fn who_is_interrupted(_: usize, _: Expiry) {
    INTERRUPTED.call_once(thread::current);
}

target_test! {
    /// `irqsoff` finds the stretch, its length to the instruction, and where it began and ended.
    fn irqsoff_is_exact(Shared) {
        is_exact("irqsoff", without_irqs, 1)
    }

    /// The last of several guards ends it, whichever that is.
    fn irqsoff_of_guards_that_overlap(Shared) {
        is_exact("irqsoff", overlapping, 2)
    }

    /// `preemptoff` likewise.
    fn preemptoff_is_exact(Shared) {
        is_exact("preemptoff", without_preemption, 1)
    }

    /// `preemptirqsoff` follows from the one to the other; the other two see their part of it.
    fn preemptirqsoff_is_exact(Shared) {
        is_exact("preemptirqsoff", without_either, 3)?;
        is_exact("preemptirqsoff", without_irqs, 1)?;
        is_exact("preemptirqsoff", without_preemption, 1)?;
        is_exact("irqsoff", without_either, 2)?;
        is_exact("preemptoff", without_either, 2)
    }

    /// A place's event that is on does not make a tracer watch what it does not: `preemptoff` interrupts, or `irqsoff`
    /// preemption.
    fn events_of_the_others_places(Shared) {
        for (name, other, events) in [
            (
                "preemptoff",
                without_irqs as fn(u64),
                [events::irq_disable::Event::id(), events::irq_enable::Event::id(), events::irq_handler_entry::Event::id()],
            ),
            (
                "irqsoff",
                without_preemption as fn(u64),
                [events::preempt_disable::Event::id(), events::preempt_enable::Event::id(), events::sched_switch::Event::id()],
            ),
        ] {
            for id in events {
                trace::enable(id.number(), true)?;
            }
            choose(name)?;
            black_box(other)(LONG);
            sleep_until(after_us(50))?;
            let last = latency::last();
            choose("nop")?;
            for id in events {
                trace::enable(id.number(), false)?;
            }
            check!(last.is_none_or(|last| last.cycles < LONG), "{name}: {last:x?}");
        }
        Ok(())
    }

    /// Nested sections are part of the outermost.
    fn nested_sections_belong_to_the_outermost(Shared) {
        let [short, long] = [LONG, LONG + 500].map(|length| longest("irqsoff", || nested(length)));
        let (short, long) = (short?, long?);
        check_eq!(long.cycles - short.cycles, 500);
        check!(is_in(short.started_at, nested as usize) && is_in(short.ended_at, nested as usize));
        Ok(())
    }

    /// An interrupt's stretch begins at its entry, before the handler, and ends where it returns.
    fn an_interrupt_is_a_stretch(Shared) {
        let [short, long] = [LONG, LONG + 700]
            .map(|length| longest("irqsoff", || interrupted(length, false)));
        let (short, long) = (short?, long?);
        check_eq!(long.cycles - short.cycles, 700);
        // The entry, the timer queue, and setting the timer anew.
        let rest = short.cycles - LONG;
        check!((100..250).contains(&rest), "{rest} instructions");
        check!(short.ended_at != short.started_at);
        check_eq!(short.started_at, machine::entry_of(irq::TIMER_VECTOR) as u32);
        Ok(())
    }

    /// Preemption is disabled while the interrupt comes: the interrupt's time is part of that stretch.
    fn an_interrupt_inside_a_stretch(Shared) {
        interrupted(0, false);
        let [short, long] = [1000, 6000].map(|length| {
            longest("preemptirqsoff", || {
                let guard = preempt::disable();
                interrupted(length, false);
                drop(guard);
            })
        });
        let (short, long) = (short?, long?);
        // The thread burns its 60,000 instructions whatever comes between.
        check_eq!(long.cycles - short.cycles, 5000);
        let rest = short.cycles - 61_000;
        check!((150..900).contains(&rest), "{rest} instructions");
        Ok(())
    }

    /// A stretch that an interrupt begins ends in the thread that the interrupt wakes.
    fn a_stretch_ends_in_another_context(Shared) {
        let thread = spawn(0, PRIORITY + 5, waiter, 0)?;
        let found = longest("irqsoff", || interrupted(LONG, true))?;
        join(&[thread])?;
        check!(found.cycles > LONG && found.cycles < LONG + 800, "{} instructions", found.cycles);
        check_eq!(found.started_at, machine::entry_of(irq::TIMER_VECTOR) as u32);
        // The thread that it was when it ended.
        check_eq!(found.tid, thread.id());
        Ok(())
    }

    /// `wakeup` finds how long a thread waits that a less important one keeps from running.
    fn wakeup_is_exact(Shared) {
        for name in ["wakeup", "wakeup_rt"] {
            let mut found = [0; 2];
            for (found, length) in found.iter_mut().zip([LONG, LONG + 300]) {
                let thread = spawn(0, PRIORITY + 5, waiter, 0)?;
                let latency = longest(name, || {
                    let guard = preempt::disable();
                    let _ = GO.give();
                    burn(length);
                    drop(guard);
                })?;
                join(&[thread])?;
                check_eq!(latency.tid, thread.id());
                *found = latency.cycles;
            }
            check_eq!(found[1] - found[0], 300);
            check!(found[0] >= LONG && found[0] < LONG + 250, "{} instructions", found[0]);
        }
        Ok(())
    }

    /// Of two that were woken the more important one is followed, in whatever order they were.
    fn wakeup_follows_the_most_important(Shared) {
        for order in [[0, 1], [1, 0]] {
            let threads = [
                spawn(0, PRIORITY + 5, parked, 0)?,
                spawn(1, PRIORITY + 9, parked, 0)?,
            ];
            let latency = longest("wakeup", || {
                let guard = preempt::disable();
                for index in order {
                    let _ = threads[index].unpark();
                    burn(LONG);
                }
                drop(guard);
            })?;
            join(&threads)?;
            check_eq!(latency.tid, threads[1].id());
            let waited = if order[0] == 1 { 2 * LONG } else { LONG };
            let rest = latency.cycles.wrapping_sub(waited);
            check!(rest < 1000, "{} instructions", latency.cycles);
        }
        Ok(())
    }

    /// Time during which the woken thread was suspended is not the time of a wake-up.
    fn wakeup_of_a_thread_that_was_suspended(Shared) {
        let thread = spawn(0, PRIORITY + 5, parked, 0)?;
        let latency = longest("wakeup", || {
            let guard = preempt::disable();
            let _ = thread.unpark();
            let _ = thread.suspend();
            drop(guard);
            burn(LONG);
            let _ = thread.resume();
        })?;
        join(&[thread])?;
        check!(latency.cycles < 1000, "{} instructions", latency.cycles);
        Ok(())
    }

    /// Nor is it where the thread, once it is resumed, is less important than the running one: then it is not followed.
    fn wakeup_of_a_thread_that_was_suspended_and_waits(Shared) {
        let (thread, me) = (spawn(0, PRIORITY + 5, parked, 0)?, thread::current());
        choose("wakeup")?;
        let guard = preempt::disable();
        let _ = thread.unpark();
        let _ = thread.suspend();
        me.set_priority(PRIORITY + 9)?;
        drop(guard);
        burn(LONG);
        let _ = thread.resume();
        me.set_priority(PRIORITY)?;
        let last = latency::last();
        choose("nop")?;
        join(&[thread])?;
        check!(last.is_none_or(|latency| latency.cycles < LONG), "{last:?}");
        Ok(())
    }

    /// Guards inside guards neither begin nor end a stretch.
    fn nested_preempt_guards(Shared) {
        #[inline(never)]
        fn twice(instructions: u64) {
            let outer = preempt::disable();
            burn(instructions);
            let inner = preempt::disable();
            burn(instructions);
            drop(inner);
            burn(instructions);
            drop(outer);
        }
        let [short, long] = [LONG, LONG + 100].map(|length| longest("preemptoff", || twice(length)));
        let (short, long) = (short?.cycles, long?.cycles);
        check_eq!(long - short, 300);
        check!((3 * LONG..3 * LONG + 60).contains(&short), "{short} instructions");
        Ok(())
    }

    /// Interrupts that come at the very beginning or end of a guard are seen, whether as part of its stretch or not.
    fn no_interrupt_is_missed_at_a_guards_edges(Shared) {
        choose("preemptirqsoff")?;
        AT.store(LONG, Relaxed);
        GIVES.store(false, Relaxed);
        let timer = lingering_timer();
        let mut missed = 0;
        for offset in (0..600).step_by(5) {
            latency::set_max(Nanos::ZERO);
            let deadline = Instant::now() + Cycles::new(5_000 + offset);
            timer.arm(deadline);
            while Instant::now() < deadline + Cycles::new(1000) {
                drop(preempt::disable());
            }
            missed += u32::from(latency::max() < Nanos::new(LONG));
        }
        choose("nop")?;
        check_eq!(missed, 0);
        Ok(())
    }

    /// A tracer that ends or begins at any moment finds nothing that was not there.
    fn chosen_under_load(Shared) {
        AT.store(0, Relaxed);
        GIVES.store(false, Relaxed);
        let timer = lingering_timer();
        for name in ["irqsoff", "preemptirqsoff"] {
            for offset in 0..20 {
                timer.arm(Instant::now() + Cycles::new(10_000 + 7_919 * offset));
                choose(name)?;
                timer.arm(Instant::now() + Cycles::new(500 + 5_003 * offset));
                choose("nop")?;
                let found = latency::max();
                // Rewriting the code keeps interrupts off itself, but that is not watched.
                check!(found < Nanos::from_micros(10), "{name}: {found:?}");
            }
        }
        Ok(())
    }

    /// A thread that is not more important than the running one is meant to wait, and is not followed.
    fn wakeup_of_the_less_important_is_none(Shared) {
        let thread = spawn(0, PRIORITY - 5, waiter, 0)?;
        sleep_until(after_us(50))?;
        choose("wakeup")?;
        let _ = GO.give();
        burn(LONG);
        // It runs while this thread waits for its end.
        join(&[thread])?;
        let last = latency::last();
        choose("nop")?;
        check!(last.is_none_or(|latency| latency.cycles < LONG), "{last:?}");
        Ok(())
    }

    /// While recording is off nothing is kept, as in Linux.
    fn nothing_is_kept_while_recording_is_off(Shared) {
        choose("irqsoff")?;
        without_irqs(LONG);
        let first = latency::max();
        trace::tracing_off();
        without_irqs(2 * LONG);
        let meanwhile = latency::max();
        trace::tracing_on();
        without_irqs(3 * LONG);
        let last = latency::max();
        choose("nop")?;
        check_eq!(meanwhile, first);
        check_eq!(last - first, Nanos::new(2 * LONG));
        Ok(())
    }

    /// The maximum is kept until something longer comes; it can be set; a threshold keeps whatever is not below it.
    fn maximum_and_threshold(Shared) {
        choose("irqsoff")?;
        without_irqs(LONG);
        let first = latency::max();
        without_irqs(LONG / 2);
        check_eq!(latency::max(), first);
        latency::set_max(Nanos::ZERO);
        check!(latency::last().is_none());
        without_irqs(LONG / 2);
        let second = latency::max();
        check!(second < first && second > Nanos::new(LONG / 2));
        latency::set_max(Nanos::new(2 * LONG));
        without_irqs(LONG);
        check_eq!(latency::max(), Nanos::new(2 * LONG));
        latency::set_thresh(Nanos::new(LONG / 4));
        without_irqs(LONG / 3);
        let kept = || latency::last().map_or(0, |last| last.cycles);
        check!((LONG / 3..second.get()).contains(&kept()), "{} instructions", kept());
        without_irqs(LONG / 8);
        check!((LONG / 3..second.get()).contains(&kept()), "{} instructions", kept());
        check_eq!(latency::max(), Nanos::new(2 * LONG));
        latency::set_thresh(Nanos::ZERO);
        choose("nop")?;
        Ok(())
    }

    /// Choosing a tracer: the list, the current one, a name that is none, and nothing more once it is `nop`.
    fn tracers_are_chosen(Shared) {
        hwlat::set_window(Nanos::from_millis(4), Nanos::from_millis(1))?;
        let names = [
            "nop", "sched_switch", "irqsoff", "preemptoff", "preemptirqsoff", "wakeup", "wakeup_rt", "hwlat",
        ];
        for name in names {
            check!(tracers::available().any(|known| known == name), "{name} is missing");
            choose(name)?;
            check_eq!(tracers::current(), name);
        }
        let id = events::sched_switch::Event::id().number();
        check!(!trace::is_enabled(id));
        choose("sched_switch")?;
        check!(trace::is_enabled(id));
        choose("wakeup_rt")?;
        check!(trace::is_enabled(id));
        check_err!(choose("irqsof"), InvalidArgument);
        check_eq!(tracers::current(), "wakeup_rt");
        choose("irqsoff")?;
        check!(!trace::is_enabled(id));
        // What a tracer needs is on whatever others want; what they want is on when it ends.
        for (before, wanted) in [(false, false), (false, true), (true, false), (true, true)] {
            trace::enable(id, before)?;
            choose("wakeup")?;
            trace::enable(id, wanted)?;
            check!(trace::is_enabled(id), "{before} {wanted}");
            trace::enable(events::sched_waking::Event::id().number(), true)?;
            trace::enable(events::sched_waking::Event::id().number(), false)?;
            check!(trace::is_enabled(id), "{before} {wanted}");
            choose("nop")?;
            check_eq!(trace::is_enabled(id), wanted);
        }
        trace::enable(id, false)?;
        latency::set_max(Nanos::ZERO);
        without_irqs(LONG);
        without_preemption(LONG);
        check!(latency::last().is_none());
        Ok(())
    }

    /// `hwlat` finds what has the CPU while interrupts are disabled, here a non-maskable interrupt, and nothing else.
    fn hwlat_finds_what_software_cannot_explain(Shared) {
        // SAFETY: it computes.
        unsafe { irq::set_nmi_handler(|_| burn(30_000)) };
        check_err!(hwlat::set_window(Nanos::from_micros(1), Nanos::from_micros(1)), InvalidArgument);
        hwlat::set_window(Nanos::from_millis(4), Nanos::from_millis(2))?;
        choose("hwlat")?;
        sleep_until(after_us(9000))?;
        let nothing = latency::last();
        // The thread that watches has kept the CPU until 10 ms; it watches again from 12 to 14 ms.
        interrupt::nmi_after_us(3000);
        sleep_until(after_us(9000))?;
        let gap = latency::last();
        choose("nop")?;
        // SAFETY: it does nothing.
        unsafe { irq::set_nmi_handler(|_| {}) };
        hwlat::set_window(Nanos::from_secs(1), Nanos::from_millis(500))?;
        check!(nothing.is_none(), "{nothing:?}");
        let cycles = gap.map_or(0, |gap| gap.cycles);
        check!((30_000..30_300).contains(&cycles), "{cycles} instructions");
        Ok(())
    }

    /// A tracer ends although somebody has suspended its thread: a handler is given the handle of whom it interrupts.
    fn a_suspended_thread_of_a_tracer(Shared) {
        hwlat::set_window(Nanos::from_millis(4), Nanos::from_millis(2))?;
        choose("hwlat")?;
        let timer = Timer::new(who_is_interrupted, 0)?;
        // It has watched for 2 ms, and does so again in 2 ms.
        timer.arm(after_us(3000));
        sleep_until(after_us(6000))?;
        let thread = INTERRUPTED.get().copied().unwrap_or(thread::current());
        check_eq!(thread.name(), Ok("hwlat"));
        thread.suspend()?;
        choose("nop")?;
        hwlat::set_window(Nanos::from_secs(1), Nanos::from_millis(500))?;
        Ok(())
    }

    /// What the tracers add to a semaphore's way from one thread to another, for the record.
    fn what_they_cost(Shared) {
        ping();
        let plain = ping();
        for name in ["irqsoff", "preemptoff", "preemptirqsoff", "wakeup"] {
            choose(name)?;
            let traced = ping();
            choose("nop")?;
            note!("{name}: {plain} -> {traced} instructions");
        }
        // Off again, they cost nothing.
        check_eq!(ping(), plain);
        Ok(())
    }
}

/// Instructions from giving a semaphore to the end of the thread that waits for it.
#[inline(never)]
fn ping() -> u64 {
    let Ok(thread) = spawn(0, PRIORITY + 5, waiter, 0) else {
        return 0;
    };
    let before = Instant::now().cycles();
    let _ = GO.give();
    let cycles = Instant::now().cycles() - before;
    let _: Result<(), Error> = join(&[thread]);
    cycles
}
