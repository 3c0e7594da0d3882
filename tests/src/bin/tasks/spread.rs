//! Tasks on several CPUs: they call each other, are told of each other's faults, begin anew, and lend their priorities there as well.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use takt_kernel::task::{self, Ended, all};
use takt_kernel::thread::{Builder, Thread, count_times};
use takt_kernel::time::{Instant, Nanos, sleep};
use takt_kernel::{Error, thread_stack};
use takt_tests::harness::{self, Failure, print};
use takt_tests::{check, check_eq, note, target_test};

use crate::{CLIENT, KEEPER, SERVER, VICTIM};

/// What the tasks are told that they are.
const HUB: u64 = 18;
const NODE: u64 = 9;
const ASKS: u64 = 10;
const ASKS_AND_DIES: u64 = 11;
const LENDS: u64 = 12;

/// What the command line asks for.
pub(crate) struct Asked {
    pub(crate) cpus: usize,
    pub(crate) seed: u64,
    pub(crate) operations: u64,
    pub(crate) patience: Nanos,
}

impl Asked {
    /// Reads it, and starts the CPUs.
    pub(crate) fn read() -> Result<Self, Failure> {
        let asked = Self {
            cpus: harness::number("cpus", 1)? as usize,
            seed: harness::number("seed", 1)?,
            operations: harness::number("operations", 2_000)?,
            patience: Nanos::from_millis(harness::number("patience_ms", 10_000)?),
        };
        check_eq!(takt_board::smp::start(asked.cpus) as usize, asked.cpus);
        Ok(asked)
    }

    /// Waits for a task's end.
    pub(crate) fn end(&self, (number, thread): (usize, Thread), nr: u64) -> Result<Ended, Failure> {
        let limit = self.patience + Nanos::from_micros(200) * nr;
        let name = all()[number].name();
        check!(
            thread.join(Instant::after(limit)).is_ok(),
            "{name} does not end"
        );
        let ended = all()[number].ended();
        ended.ok_or_else(|| Failure::new(format_args!("{name} has not ended")))
    }

    /// Waits for the end of some, which has to be one of their own, with code 0.
    pub(crate) fn succeed<const NR: usize>(
        &self,
        tasks: [(usize, Thread); NR],
        nr: u64,
    ) -> Result<(), Failure> {
        for task in tasks {
            let name = all()[task.0].name();
            match self.end(task, nr)? {
                Ended::Exited(0) => {}
                Ended::Exited(code) => check!(false, "{name} ended with {code}"),
                Ended::Stopped(fault) => check!(false, "{name}: {fault}"),
            }
        }
        Ok(())
    }
}

/// Starts a task as something, on this CPU and with this priority. It may not live yet; on another CPU its life may be over by now.
pub(crate) fn start(
    number: usize,
    role: u64,
    what: u64,
    cpu: usize,
    priority: u8,
) -> Result<(usize, Thread), Failure> {
    let argument = role << 32 | what & 0xffff_ffff;
    let thread = task::start_on(number, argument, cpu, Some(priority))?;
    Ok((number, thread))
}

/// Waits until a task that was started lives, so that others can call it. It must not end before that.
pub(crate) fn lives(started: (usize, Thread)) -> Result<(usize, Thread), Failure> {
    while !all()[started.0].is_alive() {
        sleep(Nanos::from_micros(10))?;
    }
    Ok(started)
}

thread_stack!(static STACKS: [16384; 3]);

static GOES_ON: AtomicBool = AtomicBool::new(false);

fn spin(_: usize) {
    while GOES_ON.load(Relaxed) {
        core::hint::spin_loop();
    }
}

/// Starts a thread on each CPU but the first that keeps all from running that are less important.
fn spinners(nr: usize) -> Result<[Option<Thread>; 3], Error> {
    GOES_ON.store(true, Relaxed);
    let mut threads = [None; 3];
    for (at, thread) in threads.iter_mut().enumerate().take(nr) {
        let builder = Builder::new("spins", 35)?.cpu(at + 1);
        *thread = Some(builder.spawn(&STACKS[at], spin, 0)?);
    }
    Ok(threads)
}

target_test! {
    /// Two clients, a server and its supervisor, on CPUs and with priorities that a seed says: echoes, chains, circles, time-outs,
    /// notifications, deaths and new lives. Each finds what it has to, and all come to their end.
    fn tasks_call_each_other_wherever_they_are(Stress) {
        let asked = Asked::read()?;
        count_times(asked.seed % 2 == 1)?;
        let begin = Instant::now();
        let nr_lives = || all().iter().map(|it| u64::from(it.generation())).sum::<u64>();
        let before = nr_lives();
        const GAMES: u64 = 8;
        let nr = asked.operations / GAMES / 4;
        for game in 0..GAMES {
            let word = (asked.seed * GAMES + game + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let cpu = |at: u64| (word.wrapping_shr(8 * at as u32 + 5) % asked.cpus as u64) as usize;
            let priority = |at: u64| 20 + (word.wrapping_shr(8 * at as u32 + 9) % 50) as u8;
            let what = nr | (word >> 56) << 24;
            let servers = [
                lives(start(KEEPER.0, HUB, 0, cpu(0), priority(0))?)?,
                lives(start(SERVER.0, NODE, 0, cpu(1), priority(1))?)?,
            ];
            let clients = [
                start(CLIENT.0, ASKS, what, cpu(2), priority(2))?,
                start(VICTIM.0, ASKS_AND_DIES, what, cpu(3), priority(3))?,
            ];
            asked.succeed(clients, asked.operations)?;
            asked.succeed(servers, 0)?;
        }
        let millis = (Instant::now() - begin).to_nanos().get() / 1_000_000;
        note!("{} operations in {millis} ms, {} lives", nr * 2 * GAMES, nr_lives() - before);
        count_times(false)?;
        Ok(())
    }

    /// Instructions of both CPUs for a message to an idle one and its reply; under icount, where they take turns.
    fn calls_between_cpus_are_measured(Stress) {
        let asked = Asked::read()?;
        let server = lives(start(SERVER.0, SERVER.1, 0, asked.cpus - 1, 30)?)?;
        let client = start(CLIENT.0, CLIENT.1, 4, 0, 40)?;
        let ended = asked.end(client, 1)?;
        asked.succeed([server], 1)?;
        let Ended::Exited(code) = ended else {
            return Err(Failure::new(format_args!("{ended:?}")));
        };
        note!("1 operations, call and reply {}", code >> 32);
        let (cpus, call) = (asked.cpus, code >> 32);
        print(format_args!("bench task-call-reply-cpus-{cpus} insn {call}\n"));
        Ok(())
    }

    /// A server and whom it asks in turn are less important than threads on their CPUs that never wait, but their client is not: it is
    /// answered each time.
    fn priority_is_lent_to_other_cpus(Stress) {
        let asked = Asked::read()?;
        let others = asked.cpus - 1;
        let spinners = spinners(others)?;
        let nr = asked.operations.min(1_000) / 10;
        let servers = [
            lives(start(KEEPER.0, HUB, 0, others.min(2), 20)?)?,
            lives(start(SERVER.0, NODE, 0, others.min(1), 30)?)?,
        ];
        let client = start(CLIENT.0, LENDS, nr, 0, 40)?;
        let result = asked.succeed([client], asked.operations);
        GOES_ON.store(false, Relaxed);
        for thread in spinners.into_iter().flatten() {
            thread.join(Instant::after(asked.patience))?;
        }
        result?;
        asked.succeed(servers, asked.operations)?;
        note!("{nr} operations");
        Ok(())
    }
}
