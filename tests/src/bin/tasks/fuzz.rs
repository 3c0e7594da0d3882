//! A task does at random what a program can do; the others do not notice.
//!
//! To run for hours, boot the image that
//! `cargo xtask build --manifest tests/tasks/takt.app.toml --package takt-tests --bin tasks` names by
//! `cargo xtask run --image FILE -e none --timeout 7200 --append WORDS` with one of these. With events on the more important task is later
//! by what they cost, and an hour of them is 5 GB.
//!
//! ```text
//! test=fuzz::a_control_loop_misses_nothing control_ms=3600000 busy_us=1000
//! test=fuzz::nobody_notices_what_a_task_tries patience_ms=500 operations=1000000000 seed=7
//! ```

use takt_kernel::task::{Ended, all};
use takt_kernel::time::{Instant, Nanos};
use takt_kernel::trace;
use takt_tests::harness::{Failure, number};
use takt_tests::{check, note, target_test};

use crate::spread::{Asked, lives, start};
use crate::talk;
use crate::{CLIENT, KEEPER, SERVER, VICTIM};

/// A task with nothing but deadlines.
const CONTROL: usize = 4;

/// What the tasks are told that they are.
const FUZZES: u64 = 13;
const FUZZ_KEEPER: u64 = 14;
const FUZZ_SERVER: u64 = 15;
const OBSERVES: u64 = 16;
const CONTROLS: u64 = 17;

/// The way from a deadline to a sleeping task beside one that runs (`bench.task-deadline-busy`), in nanoseconds, which are
/// instructions.
const WAY: u64 = 208;
/// The longest section of the others, in which the deadline may come: the one in which a life is given its priority.
const SECTION: u64 = 102;
/// An interrupt in which the time of a less important task comes, in a wait for a reply; it may come before or behind the deadline's.
const TIME_OUT: u64 = 255;
/// The observer, the server and the fuzzer have such times, one at once.
const NR_TIME_OUTS: u64 = 3;
/// How late a task is at most that sleeps.
const LATEST: u64 = WAY + SECTION + NR_TIME_OUTS * TIME_OUT;

/// The most operations: a number of 32 bits.
const MOST: u64 = u32::MAX as u64;
/// Begins and ends with all tasks: so many operations, or so many turns of a control task of 1 kHz beside what the others do in so
/// many microseconds of each tenth of a second. Gives how late the more important task was at most, and how often the one that fuzzes began anew.
fn play(asked: &Asked, operations: u64, (turns, busy): (u64, u64)) -> Result<(u64, u32), Failure> {
    let last = asked.cpus - 1;
    // A turn's millisecond is what five operations may take.
    let patience = if turns == 0 { operations } else { 10 * turns };
    let before = all()[VICTIM.0].generation();
    let role = FUZZ_KEEPER | (asked.seed & 0xff_ffff) << 8;
    let keeper = lives(start(KEEPER.0, role, operations, last / 2, 60)?)?;
    let server = lives(start(SERVER.0, FUZZ_SERVER, 0, last, 40)?)?;
    let observer = start(CLIENT.0, OBSERVES, busy, last, 20)?;
    let fuzzer = start(VICTIM.0, FUZZES, busy, last, 30)?;
    // Last, since whoever is started begins above all others.
    let control = start(CONTROL, CONTROLS, turns, 0, 70)?;
    asked.succeed([fuzzer, observer], patience)?;
    let late = match asked.end(control, patience)? {
        Ended::Exited(late) if late >> 32 == 0 => late,
        ended => return Err(Failure::new(format_args!("the control task: {ended:?}"))),
    };
    asked.succeed([server, keeper], patience)?;
    Ok((late, all()[VICTIM.0].generation() - before))
}

target_test! {
    /// Calls with anything in the registers, flags and stack pointer, and now and then an instruction that stops the task: all others
    /// have what they had in registers and memory, and a more important one is there for each of its deadlines.
    fn nobody_notices_what_a_task_tries(Stress) {
        let asked = Asked::read()?;
        let begin = Instant::now();
        let nr = asked.operations.min(MOST);
        let (late, lives) = play(&asked, nr, (0, 0))?;
        let millis = (Instant::now() - begin).to_nanos().get() / 1_000_000;
        note!("{nr} operations in {millis} ms, {lives} lives, a more important task {late} ns late at most");
        // With several CPUs, and in real time, others run in between.
        if asked.cpus == 1 && asked.patience < Nanos::from_secs(1) {
            check!(late <= LATEST, "{late} ns late");
        }
        Ok(())
    }

    /// A control loop of 1 kHz misses none of its turns, for ten seconds or what `control_ms` says, beside bursts of what the fuzzer
    /// does and of floods: calls, notifications, lines of the log, events, faults. They are a twentieth of the time, or what `busy_us`
    /// says of each tenth of a second.
    fn a_control_loop_misses_nothing(Alone) {
        let (turns, busy) = (number("control_ms", 10_000)?, number("busy_us", 5_000)?);
        let (late, lives) = play(&Asked::read()?, MOST, (turns, busy))?;
        note!("{turns} turns beside {lives} lives, {late} ns late at most");
        check!(late <= LATEST, "{late} ns late");
        Ok(())
    }

    /// The same for a second, beside another task as well that emits events in floods: they are on, so all go the long way.
    fn a_control_loop_misses_nothing_while_it_is_traced(Alone) {
        talk::switch(talk::PAIR, true)?;
        trace::tracing_on();
        let before = trace::counters_of(0).entries;
        let talker = crate::start((talk::TALKER, 0), talk::EMITS_IN_BURSTS as u32)?;
        let (late, lives) = play(&Asked::read()?, MOST, (1_000, 5_000))?;
        talker.succeeds()?;
        let events = trace::counters_of(0).entries - before;
        check!(events > 10_000, "{events} events: they were to be a flood");
        note!("beside {lives} lives and {events} events, {late} ns late at most");
        check!(late <= LATEST, "{late} ns late");
        Ok(())
    }
}
