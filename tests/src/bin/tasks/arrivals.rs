//! What comes in the middle of a call: a non-maskable interrupt, and the end of whoever calls or is called, at every instruction
//! of the way there and back, by the short way and by the long one.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use takt_abi::FaultKind;
use takt_kernel::irq;
use takt_kernel::task::{Ended, all};
use takt_kernel::thread::count_times;
use takt_kernel::time::{Expiry, Instant, Nanos, Timer, sleep_until};
use takt_tests::harness::{Failure, Outcome, number};
use takt_tests::{check, check_eq, interrupt, note, target_test};

use crate::{CLIENT, KEEPER, SERVER, Started, VICTIM, start};

/// The client calls at each multiple of this.
const PERIOD: u64 = 200_000;
/// From the timer's interrupt that has the NMI come to that, a little more than that of the interval timer.
const AHEAD: u64 = 20_000;
/// Instructions that are looked at; those of the long way are some more. More of either by `instructions=`.
const SHORT: u64 = 1_000;
const LONG: u64 = 2_500;
/// The most that there is room for.
const MOST: usize = 1 << 14;

static NR_NMIS: AtomicU32 = AtomicU32::new(0);
/// When each came, from when the client was to call.
static OFFSETS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
/// And before which instruction.
static PLACES: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
/// When the client is to call.
static DUE: AtomicU64 = AtomicU64::new(0);

fn on_nmi(nmi: &irq::Nmi) {
    let now = Instant::now().cycles();
    let number = NR_NMIS.fetch_add(1, Relaxed) as usize % MOST;
    OFFSETS[number].store(now.wrapping_sub(DUE.load(Relaxed)), Relaxed);
    PLACES[number].store(nmi.interrupted_ip() as u64, Relaxed);
}

/// So many cycles of a timer's interrupt later an NMI comes, always the same.
fn has_nmi_come(_: usize, _: Expiry) {
    interrupt::nmi_after_us(AHEAD / 1_000);
}

/// How many places are in this range.
fn nr_places(nr: usize, range: core::ops::Range<u64>) -> usize {
    let place = |number: usize| PLACES[number].load(Relaxed);
    let is_new = |number: &usize| (0..*number).all(|before| place(before) != place(*number));
    (0..nr)
        .filter(|number| range.contains(&place(*number)))
        .filter(is_new)
        .count()
}

/// Where the server and the client lie.
const OF_SERVER: core::ops::Range<u64> = 0x80_0020_0000..0x80_0040_0000;
const OF_CLIENT: core::ops::Range<u64> = 0x80_0040_0000..0x80_0060_0000;

/// Calls and replies go on wherever an NMI comes; says at how many instructions of the kernel one came.
fn nmis(instructions: u64) -> Result<usize, Failure> {
    // SAFETY: it computes, and stores into atomics of its own.
    unsafe { irq::set_nmi_handler(on_nmi) };
    let timer = Timer::new(has_nmi_come, 0)?;
    NR_NMIS.store(0, Relaxed);
    let server = start(SERVER, 0)?;
    let client = start(CLIENT, 18 | (instructions as u32 + 2) << 8)?;
    let now = (Instant::now() - Instant::ZERO).to_nanos().get();
    let first = now.next_multiple_of(PERIOD) + PERIOD;
    for number in 0..instructions {
        let at = |nanos: u64| Instant::ZERO + Nanos::new(nanos).to_cycles();
        let due = first + number * PERIOD;
        DUE.store(at(due).cycles(), Relaxed);
        timer.arm(at(due + number - AHEAD));
        sleep_until(at(due + PERIOD / 2))?;
    }
    client.succeeds()?;
    server.succeeds()?;
    // SAFETY: it does nothing.
    unsafe { irq::set_nmi_handler(|_| {}) };
    check_eq!(u64::from(NR_NMIS.load(Relaxed)), instructions);
    let nr = instructions as usize;
    let offset = |number: usize| OFFSETS[number].load(Relaxed).cast_signed();
    let most = (1..nr)
        .map(|number| offset(number) - offset(number - 1))
        .max();
    // One each, but where the CPU holds it up for an instruction, or waits.
    check!(most <= Some(3), "no NMI came for {most:?} instructions");
    check!(
        offset(0) < 0 && nr_places(nr, OF_CLIENT) > 5 && nr_places(nr, OF_SERVER) > 5,
        "the window is not that of a call"
    );
    Ok(nr_places(nr, 0x100_0000..0x4000_0000))
}

/// Supervises without a word of anybody's beginning anew.
const SUPERVISOR: (usize, u64) = (KEEPER.0, 20);
/// A task whose watchdog bites after 500 µs, which nobody feeds.
const WATCHED: usize = 7;

/// How it ended: by its watchdog, or with this code.
#[inline(never)]
fn code_of(task: Started) -> Result<Option<u64>, Failure> {
    match &task.end()? {
        Ended::Exited(code) => Ok(Some(*code)),
        Ended::Stopped(fault) if fault.kind == FaultKind::Watchdog => Ok(None),
        Ended::Stopped(fault) => Err(Failure::new(format_args!("{fault}"))),
    }
}

/// A caller whose watchdog bites so many instructions after it has slept: whether that was in time.
fn caller_ends(instructions: u32) -> Result<bool, Failure> {
    let is_stopped = code_of(start((WATCHED, CLIENT.1), 19 | instructions << 8)?)?.is_none();
    // The server answers the next one.
    start(CLIENT, 20)?.succeeds()?;
    Ok(is_stopped)
}

/// What the tasks are told that they are that lend memory, and borrow it.
const LENDS: u64 = 21;
const BORROWS: (usize, u64) = (SERVER.0, 22);

/// A lender, likewise, whose window the server writes to.
fn lender_ends(instructions: u32) -> Result<bool, Failure> {
    let is_stopped = code_of(start((WATCHED, LENDS), 11 | instructions << 8)?)?.is_none();
    start((CLIENT.0, LENDS), 10)?.succeeds()?;
    Ok(is_stopped)
}

/// Whom it calls, likewise.
fn server_ends(instructions: u32) -> Result<bool, Failure> {
    let server = start((WATCHED, SERVER.1), 0)?;
    let code = code_of(start(CLIENT, 21 | instructions << 8)?)?;
    check_eq!(code_of(server)?, None);
    Ok(code == Some(1))
}

/// At each instruction of a call, from before its first one: the smallest number for which it `ends` in the middle is searched for.
fn at_every_instruction(ends: fn(u32) -> Result<bool, Failure>, nr: u64) -> Outcome {
    let (mut low, mut high) = (0, 100_000);
    check!(
        !ends(low)? && ends(high)?,
        "the window is not that of a call"
    );
    while high - low > 1 {
        let middle = (low + high) / 2;
        match ends(middle)? {
            true => high = middle,
            false => low = middle,
        }
    }
    for number in 0..nr as u32 {
        check!(ends(high + number)?, "the call came to its end at {number}");
    }
    Ok(())
}

/// By each of the two ways.
fn by_both(mut with: impl FnMut(u64) -> Outcome) -> Outcome {
    let [short, long] = [SHORT, LONG].map(|it| number("instructions", it));
    with(short?)?;
    count_times(true)?;
    let result = with(long?);
    count_times(false)?;
    result
}

target_test! {
    /// A non-maskable interrupt at every instruction from before a call to behind its reply, in all three rings of it.
    fn nmis_in_calls(Alone) {
        by_both(|nr| {
            let places = nmis(nr.min(MOST as u64))?;
            note!("an NMI at each of {nr} instructions, {places} different ones of the kernel");
            check!(places > 300, "at {places} instructions of the kernel");
            Ok(())
        })
    }

    /// A caller is stopped at every instruction of its call.
    fn callers_end_in_calls(Alone) {
        let supervisor = start(SUPERVISOR, 0)?;
        let server = start(SERVER, 0)?;
        by_both(|nr| at_every_instruction(caller_ends, nr))?;
        server_and_supervisor_end(server, supervisor)
    }

    /// A lender is stopped at every instruction of a call, of the copy to what it lends above all: the server is told, or done, and answers
    /// the next one.
    fn lenders_end_in_copies(Alone) {
        let supervisor = start(SUPERVISOR, 0)?;
        let server = start(BORROWS, 0)?;
        at_every_instruction(lender_ends, number("instructions", SHORT)?)?;
        server_and_supervisor_end(server, supervisor)
    }

    /// Whoever is called is stopped at every instruction of the call: its caller is told, or has its answer.
    fn servers_end_in_calls(Alone) {
        let supervisor = start(SUPERVISOR, 0)?;
        let server = start(SERVER, 0)?;
        by_both(|nr| at_every_instruction(server_ends, nr))?;
        server_and_supervisor_end(server, supervisor)
    }
}

/// At each multiple of this a sleeper begins to live, in nanoseconds.
const TURN: u64 = 10_000_000;

/// Tells a sleeper to take a semaphore.
const TAKES: u32 = 1 << 30;

/// One that begins to sleep so many instructions after some time, likewise, or ends with 5 instead, and its next life: how that ended.
fn sleeper_ends(
    timers: &[Timer],
    instructions: u32,
    ends: bool,
    takes: u32,
) -> Result<Option<u64>, Failure> {
    let keeper = start(KEEPER, u32::from(!ends))?;
    let begin = Instant::now().next_multiple_of(Nanos::new(TURN).to_cycles());
    // Its place among these is looked for in steps, in between which it is stopped: half of them expire before it would wake up.
    for (timer, number) in timers.iter().zip([6, 7, 8, 9, 10, 15, 16, 17, 18, 19]) {
        timer.arm(begin + Nanos::from_micros(100 * number).to_cycles());
    }
    sleep_until(begin)?;
    let sleeper = start(
        (WATCHED, CLIENT.1),
        25 | u32::from(ends) << 8 | instructions << 9 | takes,
    )?;
    let code = code_of(sleeper)?;
    start(CLIENT, 6)?.succeeds()?;
    keeper.succeeds()?;
    Ok(code)
}

/// Stops a task at every instruction at which it begins to wait.
fn sleepers_end(takes: u32) -> Outcome {
    let mut timers: heapless::Vec<_, 10> = heapless::Vec::new();
    while !timers.is_full() {
        // There is room.
        let _ = timers.push(Timer::new(|_, _| {}, 0)?);
    }
    let ends = |number| sleeper_ends(&timers, number, true, takes);
    let (mut low, mut high) = (0, 100_000);
    check!(
        ends(low)? == Some(5) && ends(high)?.is_none(),
        "the window is another"
    );
    while high - low > 1 {
        let middle = (low + high) / 2;
        match ends(middle)? {
            None => high = middle,
            Some(_) => low = middle,
        }
    }
    for number in low - 700..high {
        let code = sleeper_ends(&timers, number, false, takes)?;
        check!(
            code.is_none(),
            "begun {} instructions before it was stopped the next life ended with {code:?}",
            high - number
        );
    }
    Ok(())
}

target_test! {
    /// Who is stopped in the middle of beginning to sleep, at whichever instruction, leaves no time-out for its next life.
    fn sleepers_end_before_they_sleep(Alone) {
        sleepers_end(0)
    }

    /// The same for who waits for a semaphore: what stops it has its time-out come at once.
    fn takers_end_before_they_wait(Alone) {
        sleepers_end(TAKES)
    }
}

/// How late the timer's interrupt was, and whether the task lived then that was to fault.
static LATE: AtomicU64 = AtomicU64::new(0);
static LIVED: AtomicBool = AtomicBool::new(false);

fn note_arrival(_: usize, expiry: Expiry) {
    LATE.store((expiry.at - expiry.deadline).get(), Relaxed);
    LIVED.store(all()[VICTIM.0].is_alive(), Relaxed);
}

/// What it executes that stops it.
const UD2: u32 = 8;
/// The longest section with interrupts off, of whatever a task does.
const SECTION: u64 = 100;

/// A task faults, and the timer comes so many instructions after its start: whether it lived then, and how late the interrupt was.
fn arrival(timer: Timer, instructions: u64) -> Result<(bool, u64), Failure> {
    timer.arm(Instant::from_cycles(Instant::now().cycles() + instructions));
    match start(VICTIM, UD2)?.end()? {
        Ended::Stopped(fault) if fault.kind == FaultKind::InvalidOpcode => {}
        _ => return Err(Failure::new(format_args!("it was not stopped"))),
    }
    Ok((LIVED.load(Relaxed), LATE.load(Relaxed)))
}

target_test! {
    /// From where a life is entered to the message of the task's fault an interrupt waits for one section at most, at whichever
    /// instruction it comes.
    fn a_fault_keeps_nothing_waiting(Alone) {
        let supervisor = start(SUPERVISOR, 0)?;
        let timer = Timer::new(note_arrival, 0)?;
        let (mut at, mut has_lived) = (0, false);
        loop {
            let (lives, _) = arrival(timer, at)?;
            if has_lived && !lives {
                break;
            }
            has_lived |= lives;
            check!(at < 100_000, "the window is not that of a fault");
            at += 50;
        }
        let mut latest = 0;
        for number in at - 600..at + 100 {
            latest = latest.max(arrival(timer, number)?.1);
        }
        note!("an interrupt was {latest} instructions late at most");
        check!(latest <= SECTION, "an interrupt was {latest} instructions late");
        start(CLIENT, 6)?.end()?;
        supervisor.end()?;
        Ok(())
    }
}

fn server_and_supervisor_end(server: Started, supervisor: Started) -> Outcome {
    start(CLIENT, 10)?.end()?;
    server.end()?;
    supervisor.end()?;
    Ok(())
}
