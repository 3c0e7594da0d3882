//! A task does at random what a program can do; the others do not notice.

use takt_kernel::task::{Ended, all};
use takt_kernel::time::{Instant, Nanos};
use takt_tests::harness::Failure;
use takt_tests::{check, note, target_test};

use crate::spread::{Asked, lives, start};
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
const WAY: u64 = 230;
/// The longest section of the others, in which the deadline may come: a fault, until the supervisor runs (`bench.task-fault`).
const SECTION: u64 = 145;
/// An interrupt in which the time of a less important task comes, in a wait for a reply; it may come before or behind the deadline's.
const TIME_OUT: u64 = 255;
/// The observer, the server and the fuzzer have such times, one at once.
const NR_TIME_OUTS: u64 = 3;
/// How late a task is at most that sleeps.
const LATEST: u64 = WAY + SECTION + NR_TIME_OUTS * TIME_OUT;

target_test! {
    /// Calls with anything in the registers, flags and stack pointer, and now and then an instruction that stops the task: all others
    /// have what they had in registers and memory, and a more important one is there for each of its deadlines.
    fn nobody_notices_what_a_task_tries(Stress) {
        let asked = Asked::read()?;
        let last = asked.cpus - 1;
        let begin = Instant::now();
        // A number of 24 bits, and a seed of eight.
        let what = asked.operations.min(0xff_ffff) | (asked.seed & 0xff) << 24;
        let before = all()[VICTIM.0].generation();
        let keeper = lives(start(KEEPER.0, FUZZ_KEEPER, what, last / 2, 60)?)?;
        let server = lives(start(SERVER.0, FUZZ_SERVER, 0, last, 40)?)?;
        let observer = start(CLIENT.0, OBSERVES, 0, last, 20)?;
        let fuzzer = start(VICTIM.0, FUZZES, 0, last, 30)?;
        // Last, since whoever is started begins above all others.
        let control = start(CONTROL, CONTROLS, 0, 0, 70)?;
        let nr = asked.operations;
        asked.succeed([fuzzer, observer], nr)?;
        let Ended::Exited(late) = asked.end(control, nr)? else {
            return Err(Failure::new(format_args!("the control task was stopped")));
        };
        asked.succeed([server, keeper], nr)?;
        let millis = (Instant::now() - begin).to_nanos().get() / 1_000_000;
        let lives = all()[VICTIM.0].generation() - before;
        note!("{nr} operations in {millis} ms, {lives} lives, a more important task {late} ns late at most");
        // With several CPUs, and in real time, others run in between.
        if asked.cpus == 1 && asked.patience < Nanos::from_secs(1) {
            check!(late <= LATEST, "{late} ns late");
        }
        Ok(())
    }
}
