//! A task with several threads: they have one memory and one fate.

use takt_abi::FaultKind::{PageFault, WithTask};
use takt_kernel::task::{self, Ended, all};
use takt_kernel::thread::count_times;
use takt_kernel::time::{Instant, Nanos, sleep};
use takt_tests::harness::{Failure, Outcome, print};
use takt_tests::{check, check_eq, check_err, note, target_test};

use crate::{CLIENT, KEEPER, Started, start};

/// Numbers of the task and of its further threads, which come behind those of all tasks.
const TEAM: usize = 9;
const HIGH: usize = 11;
const LOW: usize = 12;

/// One of which a further thread faults before the first one has begun, and that thread.
const BRITTLE: usize = 10;
const BRITTLE_HIGH: usize = 13;

/// What its first thread is told to do.
const TALK: u32 = 0;
const FAULT_HIGH: u32 = 1;
const FAULT_LOW: u32 = 2;
const FAULT_FIRST: u32 = 3;
const EXIT: u32 = 4;
const RETURN: u32 = 5;
const MEASURE: u32 = 6;
const HASH: u32 = 7;
const FAULT_AT_ONCE: u32 = 8;
const HOLD: u32 = 10;
const WAIT: u32 = 11;

fn started(what: u32) -> Result<Started, Failure> {
    start((TEAM, 23), what)
}

/// Has a task fault, with a supervisor that lets it begin anew so often. Each life has its memory as at first, and at the end none of
/// its threads lives.
fn faults(task: usize, threads: &[usize], what: u32, restarts: u32) -> Outcome {
    let before = all()[task].generation();
    let keeper = start(KEEPER, restarts)?;
    let ended = start((task, 23), what)?.end()?;
    start(CLIENT, 6)?.succeeds()?;
    keeper.succeeds()?;
    let Ended::Stopped(fault) = ended else {
        return Err(Failure::new(format_args!("{what} was not stopped")));
    };
    check_eq!((what, fault.kind, fault.address), (what, PageFault, 1));
    let generation = all()[task].generation();
    let lives = generation - before;
    check!((restarts..=restarts + 1).contains(&lives), "{lives} lives");
    for thread in threads {
        let thread = &all()[*thread];
        check_eq!(
            (thread.is_alive(), thread.generation()),
            (false, generation)
        );
        // By its own fault, or for the sake of whose that was.
        let kind = match &thread.ended() {
            Some(Ended::Stopped(fault)) => Some(fault.kind),
            _ => None,
        };
        check!(
            matches!(kind, Some(PageFault | WithTask)),
            "{}: {kind:?}",
            thread.name()
        );
    }
    Ok(())
}

target_test! {
    /// A thread of low importance that faults is stopped as soon as the task's first one wants that: whoever is more important than
    /// the one and less than the other does not keep the task from its next life.
    fn who_is_in_between_keeps_no_task_from_living(Shared) {
        const MILLIS: u32 = 10;
        let keeper = start(KEEPER, 1)?;
        let team = start((TEAM, 23), 9)?;
        // Its threads wait by then.
        sleep(Nanos::from_micros(300))?;
        let client = task::start_on(CLIENT.0, CLIENT.1 << 32 | u64::from(MILLIS << 8 | 40), 0, Some(35))?;
        client.join(Instant::after(Nanos::from_millis(100)))?;
        let Some(Ended::Exited(waited)) = all()[CLIENT.0].ended() else {
            return Err(Failure::new(format_args!("{:?}", all()[CLIENT.0].ended())));
        };
        sleep(Nanos::from_micros(300))?;
        start(CLIENT, 41)?.succeeds()?;
        let ended = team.end()?;
        check!(matches!(ended, Ended::Stopped(_)), "{ended:?}");
        start(CLIENT, 6)?.succeeds()?;
        keeper.succeeds()?;
        note!("{waited} ns until the next life");
        check!(waited < 100_000, "{waited} ns until the next life");
        Ok(())
    }
}

target_test! {
    /// They call each other, lend what is on their stacks, and log; one that returns is dead, and the task goes on.
    fn threads_of_a_task_talk_to_each_other(Shared) {
        for what in [TALK, RETURN, TALK] {
            started(what)?.succeeds()?;
        }
        Ok(())
    }

    /// A fault of any of them stops all, whatever they do and however important they are, and is told as it is; each life
    /// has its memory as at first.
    fn a_fault_of_a_thread_is_its_tasks(Shared) {
        for what in [FAULT_HIGH, FAULT_LOW, FAULT_FIRST, WAIT] {
            faults(TEAM, &[HIGH, LOW], what, 3)?;
        }
        Ok(())
    }

    /// Also before the others have begun, however often; then they end as they are.
    fn a_fault_comes_before_other_threads_begin(Shared) {
        faults(TEAM, &[HIGH, LOW], FAULT_AT_ONCE, 50)?;
        faults(BRITTLE, &[BRITTLE_HIGH], TALK, 50)
    }

    /// The first thread ends the task, also one of which other threads wait or run.
    fn the_first_thread_ends_the_task(Shared) {
        let team = started(EXIT)?;
        match team.end()? {
            Ended::Exited(1) => Ok(()),
            other => Err(Failure::new(format_args!("{other:?}"))),
        }
    }

    /// Others call a thread, and learn of its end as of a task's. Only the task itself can be started.
    fn threads_are_called_as_tasks_are(Shared) {
        check_err!(task::start(HIGH, 0), InvalidArgument);
        let team = started(RETURN)?;
        start(CLIENT, 17)?.succeeds()?;
        team.succeeds()
    }

    /// Nothing that a thread has in the FPU goes to whom it calls, or is lost, by either way.
    fn registers_are_each_threads_own(Shared) {
        started(HOLD)?.succeeds()?;
        count_times(true)?;
        let result = started(HOLD)?.succeeds();
        count_times(false)?;
        result
    }

    /// Exact instructions that the kernel takes for a message between two threads of a task, and its reply.
    fn calls_within_a_task_are_short(Alone) {
        let Ended::Exited(call) = started(MEASURE)?.end()? else {
            return Err(Failure::new(format_args!("it was stopped")));
        };
        note!("call and reply {call}");
        check!(call <= 178, "a call and its reply take {call} instructions");
        print(format_args!("bench task-call-reply-same insn {call}\n"));
        Ok(())
    }

    /// Whatever its threads do, in which order, and which of them stops it: it begins anew, and can be started again.
    fn threads_at_random(Shared) {
        let (mut lives, before) = (0, all()[TEAM].generation());
        for _ in 0..40 {
            stopped_or_ended()?;
            lives += 1;
        }
        note!("{} lives", all()[TEAM].generation() - before);
        check!(all()[TEAM].generation() - before >= lives, "each was one");
        Ok(())
    }
}

/// A task that begins anew up to ten times, at random.
fn stopped_or_ended() -> Outcome {
    let keeper = start(KEEPER, 10)?;
    // Either way.
    started(HASH)?.end()?;
    check_eq!([TEAM, HIGH, LOW].map(|it| all()[it].is_alive()), [false; 3]);
    start(CLIENT, 6)?.succeeds()?;
    keeper.succeeds()
}
