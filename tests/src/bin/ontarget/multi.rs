//! Two CPUs at the same time: what one does to the other's threads.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use takt_board::lock::IrqLock;
use takt_kernel::sync::{Mutex, Semaphore};
use takt_kernel::thread::{Builder, Thread};
use takt_kernel::time::{self, Cycles, Expiry, Instant, Nanos, Timer, sleep};
use takt_kernel::trace::Event;
use takt_kernel::trace::events::sched_switch;
use takt_kernel::trace::rules::events::set_filter;
use takt_kernel::{Error, preempt, smp, thread, thread_stack, yield_now};
use takt_tests::harness::{Failure, PRIORITY};
use takt_tests::{check, check_eq, interrupt, target_test};

thread_stack!(static STACKS: [16384; 3]);

static LOCK: IrqLock<()> = IrqLock::new(());

/// A round behind the other, with a lock of the board's.
fn takes_lock(_: usize) {
    while GO_ON.load(Relaxed) {
        LOCK.with(|()| ROUNDS.fetch_add(1, Relaxed));
        // The other has its chance.
        (0..100).for_each(|_| core::hint::spin_loop());
    }
}

fn two_cpus() -> Result<(), Failure> {
    check_eq!(takt_board::smp::start(2), 2);
    Ok(())
}

fn spawn_on(cpu: usize, entry: fn(usize), argument: usize) -> Result<Thread, Error> {
    Builder::new("other", PRIORITY)?
        .cpu(cpu)
        .spawn(&STACKS[cpu], entry, argument)
}

fn before_long() -> Instant {
    Instant::after(Nanos::from_secs(10))
}

unsafe extern "C" {
    static __lock_table_start: u32;
    static __lock_table_end: u32;
}

const LOCK_PREFIX: u8 = 0xf0;
const DS_PREFIX: u8 = 0x3e;

/// What stands where the image has noted a `lock` prefix.
fn prefixes() -> impl Iterator<Item = u8> {
    let (start, end) = (&raw const __lock_table_start, &raw const __lock_table_end);
    let nr = (end as usize - start as usize) / size_of::<u32>();
    // SAFETY: the linker script puts both symbols around the table.
    let table = unsafe { core::slice::from_raw_parts(start, nr) };
    let noted = table.iter().filter(|place| **place != 0);
    // SAFETY: a byte of the text.
    noted.map(|place| unsafe { (*place as *const u8).read_volatile() })
}

static ENDED: AtomicU32 = AtomicU32::new(0);

/// Fills its stack a little, so that whoever still stands on it is found.
fn ends(number: usize) {
    let frame = core::hint::black_box([number as u8; 512]);
    if frame.iter().all(|byte| *byte == number as u8) {
        ENDED.fetch_add(1, Relaxed);
    }
}

static GO_ON: AtomicBool = AtomicBool::new(true);
static ROUNDS: AtomicU32 = AtomicU32::new(0);
static PERMITS: Semaphore = Semaphore::new(0, 1000);

/// Uses the kernel in every way that takes a thread out of its run queue.
fn busy(_: usize) {
    while GO_ON.load(Relaxed) {
        for _ in 0..8 {
            yield_now();
            // Over before it has begun.
            let _ = PERMITS.take_until(Instant::from_cycles(0));
        }
        let _ = sleep(Nanos::from_micros(1));
        ROUNDS.fetch_add(1, Relaxed);
    }
}

/// An equal of [`busy`]: were that one taken out of their queue twice, this one would be lost.
fn equal(_: usize) {
    while GO_ON.load(Relaxed) {
        yield_now();
    }
}

/// Waits a millisecond at a time until something is so, up to `millis` times; says whether it is.
fn within(millis: u32, is_so: impl Fn() -> bool) -> Result<bool, Error> {
    for _ in 0..millis {
        if is_so() {
            return Ok(true);
        }
        sleep(Nanos::from_millis(1))?;
    }
    Ok(is_so())
}

/// Waits until `rounds` grows. Ten seconds at most: the host may have other things to do than that CPU.
fn goes_on(rounds: &AtomicU32) -> Result<(), Failure> {
    let before = rounds.load(Relaxed);
    let goes_on = within(10_000, || rounds.load(Relaxed) != before)?;
    check!(goes_on, "it does not go on");
    Ok(())
}

static STEP: AtomicU32 = AtomicU32::new(0);
static TURNS: AtomicU32 = AtomicU32::new(0);

fn counts_turns(_: usize) {
    while GO_ON.load(Relaxed) {
        TURNS.fetch_add(1, Relaxed);
    }
}

fn keeps_the_cpu(_: usize) {
    let guard = preempt::disable();
    STEP.store(1, Relaxed);
    while STEP.load(Relaxed) != 2 {
        core::hint::spin_loop();
    }
    drop(guard);
    STEP.store(3, Relaxed);
}

static COUNTER: Mutex<u64> = Mutex::new(0);
const COUNTS: u64 = 3_000;

static TIMER: spin::Once<Timer> = spin::Once::new();
static EXPIRED: AtomicU32 = AtomicU32::new(0);
/// Expiries before their time or on the wrong CPU.
static EARLY: AtomicU32 = AtomicU32::new(0);

fn expires(cpu: usize, expiry: Expiry) {
    if expiry.at < expiry.deadline || smp::this_cpu() != cpu {
        EARLY.fetch_add(1, Relaxed);
    }
    EXPIRED.fetch_add(1, Relaxed);
}

fn makes_a_timer(_: usize) {
    TIMER.call_once(|| Timer::new(expires, smp::this_cpu()).expect("there are timers left"));
}

fn holds_for_a_step(_: usize) {
    let Ok(mut counter) = COUNTER.lock() else {
        return;
    };
    STEP.store(1, Relaxed);
    while STEP.load(Relaxed) != 2 {
        core::hint::spin_loop();
    }
    *counter += 1;
}

/// Turns of the other CPU's idle thread.
static IDLE_TURNS: AtomicU32 = AtomicU32::new(0);

fn parks(_: usize) {
    while GO_ON.load(Relaxed) {
        let _ = thread::park(Instant::NEVER);
    }
}

fn sleeps_long(_: usize) {
    let _ = sleep(Nanos::from_secs(5));
}

fn counts(_: usize) {
    for _ in 0..COUNTS {
        if let Ok(mut counter) = COUNTER.lock() {
            *counter += 1;
        }
    }
}

/// How often the other CPU's kick came before this one's timer, both of which were due.
static KICKS_FIRST: AtomicU32 = AtomicU32::new(0);
const RAISED: u8 = PRIORITY + 1;

fn looks_for_the_kick(_: usize, _: Expiry) {
    let is_raised = thread::current().priority() == Ok(RAISED);
    KICKS_FIRST.fetch_add(u32::from(is_raised), Relaxed);
}

/// Whenever it is woken: has a timer and a kick of the other CPU be due at once.
fn has_both_due(_: usize) {
    let Ok(timer) = Timer::new(looks_for_the_kick, 0) else {
        return;
    };
    while PERMITS.take().is_ok() && GO_ON.load(Relaxed) {
        let guard = preempt::irq_save();
        timer.arm(Instant::now());
        STEP.store(1, Relaxed);
        let end = Instant::after(Nanos::from_millis(2));
        while Instant::now() < end {
            core::hint::spin_loop();
        }
        guard.restore();
    }
}

/// A filter that lets through what threads of the name `main` do (see `takt_tracer::filter`).
const OF_MAIN: [u32; 14] = [
    1,
    0x0002_0200,
    0xfffe_ffff,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    4,
    u32::from_le_bytes(*b"main"),
];

target_test! {
    /// Who sets a filter by threads' names, while all other CPUs stand still, asks them nothing, though their times are counted.
    fn names_while_others_stand_still(TwoCpus) {
        two_cpus()?;
        thread::count_times(true)?;
        let thread = spawn_on(1, busy, 0)?;
        goes_on(&ROUNDS)?;
        let event = sched_switch::Event::id().number();
        set_filter(event, &OF_MAIN, &[])?;
        set_filter(event, &[], &[])?;
        goes_on(&ROUNDS)?;
        GO_ON.store(false, Relaxed);
        thread.join(before_long())?;
        Ok(())
    }

    /// The stack and the block of a thread that ends on the other CPU are used again at once, on either CPU.
    fn ended_threads_leave_in_time(TwoCpus) {
        two_cpus()?;
        const NR: usize = 4_000;
        for number in 0..NR {
            let thread = Builder::new("short", PRIORITY)?.cpu((number / 3) % 2);
            let thread = thread.spawn(&STACKS[0], ends, number)?;
            thread.join(before_long())?;
        }
        check_eq!(ENDED.load(Relaxed), NR as u32);
        Ok(())
    }

    /// The same beside a thread that each of them has preempted, which gets all of its registers back.
    fn ended_beside_a_preempted_thread(TwoCpus) {
        two_cpus()?;
        const NR: usize = 4_000;
        let below = Builder::new("below", PRIORITY - 1)?.cpu(1).spawn(&STACKS[1], counts_turns, 0)?;
        goes_on(&TURNS)?;
        for number in 0..NR {
            let thread = Builder::new("short", PRIORITY)?.cpu(1).spawn(&STACKS[0], ends, number)?;
            thread.join(before_long())?;
        }
        check_eq!(ENDED.load(Relaxed), NR as u32);
        goes_on(&TURNS)?;
        GO_ON.store(false, Relaxed);
        below.join(before_long())?;
        Ok(())
    }

    /// Who waits for a lock with interrupts off does meanwhile what the one who has it asks of its CPU.
    fn asked_with_a_lock_held(TwoCpus) {
        two_cpus()?;
        let thread = spawn_on(1, takes_lock, 0)?;
        for round in 0..200 {
            let set = LOCK.with(|_| thread.set_priority(PRIORITY + round % 2));
            set?;
            goes_on(&ROUNDS)?;
        }
        GO_ON.store(false, Relaxed);
        thread.join(before_long())?;
        Ok(())
    }

    /// A thread that is suspended from the other CPU wherever it stands stops, and goes on when it is resumed.
    fn suspended_from_the_other_cpu(TwoCpus) {
        two_cpus()?;
        let peer = Builder::new("equal", PRIORITY)?.cpu(1).spawn(&STACKS[2], equal, 0)?;
        let thread = spawn_on(1, busy, 0)?;
        // Each waits for the other CPU, which on a busy host takes until it has its turn there.
        for _ in 0..40 {
            for _ in 0..100 {
                thread.suspend()?;
                thread.resume()?;
            }
            goes_on(&ROUNDS)?;
        }
        thread.suspend()?;
        sleep(Nanos::from_millis(5))?;
        let rounds = ROUNDS.load(Relaxed);
        sleep(Nanos::from_millis(20))?;
        check_eq!(ROUNDS.load(Relaxed), rounds);
        thread.resume()?;
        goes_on(&ROUNDS)?;
        GO_ON.store(false, Relaxed);
        thread.join(before_long())?;
        peer.join(before_long())?;
        Ok(())
    }

    /// A thread that is suspended from the other CPU while it keeps preemption disabled stops when it enables it: the
    /// CPU does not wait for some later interrupt.
    fn suspended_with_preemption_disabled(TwoCpus) {
        two_cpus()?;
        let less = Builder::new("less", PRIORITY - 1)?.cpu(1).spawn(&STACKS[2], counts_turns, 0)?;
        let thread = spawn_on(1, keeps_the_cpu, 0)?;
        while STEP.load(Relaxed) != 1 {
            sleep(Nanos::from_micros(100))?;
        }
        thread.suspend()?;
        // The other CPU's interrupt comes while it must not switch.
        sleep(Nanos::from_millis(10))?;
        let turns = TURNS.load(Relaxed);
        STEP.store(2, Relaxed);
        // A second at most: left to itself, that CPU's timer comes after four.
        let gives_way = within(1_000, || TURNS.load(Relaxed) != turns)?;
        check!(gives_way, "the suspended thread keeps its CPU");
        check_eq!(STEP.load(Relaxed), 2);
        thread.resume()?;
        thread.join(before_long())?;
        check_eq!(STEP.load(Relaxed), 3);
        GO_ON.store(false, Relaxed);
        less.join(before_long())?;
        Ok(())
    }

    /// A timer that the other CPU arms expires on its own CPU, which halts meanwhile, and not early.
    fn timer_armed_from_the_other_cpu(TwoCpus) {
        two_cpus()?;
        spawn_on(1, makes_a_timer, 0)?.join(before_long())?;
        let Some(timer) = TIMER.get() else {
            return Err(Failure::new(format_args!("no timer")));
        };
        for round in 1..=20 {
            sleep(Nanos::from_millis(2))?;
            timer.arm(Instant::after(Nanos::from_millis(3)));
            // A second at most: left to itself, that CPU's timer comes after four.
            within(1_000, || EXPIRED.load(Relaxed) == round)?;
            check_eq!((EXPIRED.load(Relaxed), EARLY.load(Relaxed)), (round, 0));
        }
        Ok(())
    }

    /// The owner on the other CPU inherits there and then, although another thread keeps it from running.
    fn boost_on_the_other_cpu(TwoCpus) {
        two_cpus()?;
        let owner = Builder::new("owner", PRIORITY - 2)?.cpu(1).spawn(&STACKS[1], holds_for_a_step, 0)?;
        while STEP.load(Relaxed) != 1 {
            sleep(Nanos::from_micros(100))?;
        }
        let middle = Builder::new("middle", PRIORITY - 1)?.cpu(1).spawn(&STACKS[2], counts_turns, 0)?;
        while TURNS.load(Relaxed) == 0 {
            sleep(Nanos::from_micros(100))?;
        }
        STEP.store(2, Relaxed);
        sleep(Nanos::from_millis(5))?;
        check_eq!(STEP.load(Relaxed), 2);
        let counter = COUNTER.lock_until(before_long())?;
        // The other CPU gives the mutex away first and loses its boost next.
        within(1_000, || owner.priority() == Ok(PRIORITY - 2))?;
        check_eq!((*counter, owner.priority()?), (1, PRIORITY - 2));
        drop(counter);
        GO_ON.store(false, Relaxed);
        middle.join(before_long())?;
        owner.join(before_long())?;
        Ok(())
    }

    /// Where halts end before the deadline, an interrupt from the other CPU that leaves the deadline as it is ends one
    /// long before: the idle thread has its turn and halts anew, and does not go round until the deadline.
    fn an_exact_halt_that_another_interrupt_ends(TwoCpus) {
        two_cpus()?;
        takt_board::set_idle_hook(|| {
            if smp::this_cpu() == 1 {
                IDLE_TURNS.fetch_add(1, Relaxed);
            }
        });
        time::set_halt_margin(Nanos::from_micros(1).to_cycles());
        let sleeper = spawn_on(1, sleeps_long, 0)?;
        let thread = Builder::new("parks", PRIORITY)?.cpu(1).spawn(&STACKS[2], parks, 0)?;
        sleep(Nanos::from_millis(10))?;
        for _ in 0..20 {
            let turns = IDLE_TURNS.load(Relaxed);
            thread.unpark()?;
            let has_turn = within(1_000, || IDLE_TURNS.load(Relaxed) != turns)?;
            check!(has_turn, "the idle thread goes round");
        }
        GO_ON.store(false, Relaxed);
        thread.unpark()?;
        thread.join(before_long())?;
        sleeper.join(before_long())?;
        Ok(())
    }

    /// Where a wake-up has ended a halt before the deadline, another CPU's kick comes before the timer all the same: one that is due
    /// again and again would keep the other CPU waiting.
    fn a_kick_comes_before_the_timer(TwoCpus) {
        two_cpus()?;
        time::set_halt_margin(Nanos::from_micros(1).to_cycles());
        let thread = spawn_on(1, has_both_due, 0)?;
        for _ in 0..20 {
            sleep(Nanos::from_millis(1))?;
            STEP.store(0, Relaxed);
            PERMITS.give()?;
            while STEP.load(Relaxed) == 0 {
                core::hint::spin_loop();
            }
            thread.set_priority(RAISED)?;
            thread.set_priority(PRIORITY)?;
        }
        GO_ON.store(false, Relaxed);
        PERMITS.give()?;
        thread.join(before_long())?;
        // Unless the host has kept this CPU from kicking in time.
        check!(KICKS_FIRST.load(Relaxed) > 0, "the timer came first each time");
        Ok(())
    }

    /// However much time a halt is to end before its deadline, it is cut to what the idle thread can reckon with.
    fn the_longest_halt_margin(TwoCpus) {
        two_cpus()?;
        for margin in [Cycles::new(1 << 63), Cycles::new(u64::MAX)] {
            time::set_halt_margin(margin);
            sleep(Nanos::from_millis(3))?;
        }
        Ok(())
    }

    /// CPUs are started by a thread that may block. One that runs is not started once more: its threads go on.
    fn starting_cpus_again(TwoCpus) {
        // Nothing is begun where it could not be waited for, in a handler or with preemption disabled.
        interrupt::raise(|| ENDED.store(takt_board::smp::start(2), Relaxed));
        let guard = preempt::disable();
        let started = takt_board::smp::start(2);
        drop(guard);
        sleep(Nanos::from_millis(20))?;
        check_eq!((ENDED.load(Relaxed), started, smp::nr_online()), (1, 1, 1));
        two_cpus()?;
        let thread = spawn_on(1, busy, 0)?;
        goes_on(&ROUNDS)?;
        check_eq!(takt_board::smp::start(3), 2);
        goes_on(&ROUNDS)?;
        GO_ON.store(false, Relaxed);
        thread.join(before_long())?;
        // Nor does a CPU other than the first start any.
        let thread = spawn_on(1, |_| ENDED.store(takt_board::smp::start(3), Relaxed), 0)?;
        thread.join(before_long())?;
        check_eq!(ENDED.load(Relaxed), 2);
        Ok(())
    }

    /// Instructions that have no `lock` prefix while one CPU runs have one before a second one begins.
    fn prefixes_between_cpus(TwoCpus) {
        check!(prefixes().count() > 20, "{} places", prefixes().count());
        check!(prefixes().all(|prefix| prefix == DS_PREFIX));
        two_cpus()?;
        check!(prefixes().all(|prefix| prefix == LOCK_PREFIX));
        Ok(())
    }

    /// A mutex keeps the two apart.
    fn a_mutex_between_cpus(TwoCpus) {
        two_cpus()?;
        let threads = [spawn_on(0, counts, 0)?, spawn_on(1, counts, 0)?];
        for thread in threads {
            thread.join(before_long())?;
        }
        check_eq!(*COUNTER.lock()?, 2 * COUNTS);
        Ok(())
    }
}
