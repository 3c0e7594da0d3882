//! Budgets: what becomes of tasks that use more than theirs, and of those beside them.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use takt_kernel::task::{self, Ended, abi::FaultKind, all};
use takt_kernel::thread::Builder;
use takt_kernel::thread_stack;
use takt_kernel::time::{Instant, Nanos, Timer, sleep_until};
use takt_tests::harness::{Failure, Outcome};
use takt_tests::{check, check_eq, note, target_test};

use crate::spread::{self, Asked, lives};
use crate::{CLIENT, KEEPER, SERVER, Started, VICTIM, start};

/// Tasks with a budget of 200 µs in each millisecond, and the highest priority.
pub(crate) const SPENDER: (usize, u64) = (5, 19);
const STRICT: (usize, u64) = (6, 19);
/// A task whose watchdog bites after 500 µs.
const WATCHED: (usize, u64) = (7, 19);
/// Their supervisor.
const WATCHES: (usize, u64) = (KEEPER.0, 20);

/// Of a period of a millisecond. One at the end of a period and the next one behind it are twice as much: tests that ask how late
/// others are have a machine alone, where the periods begin with the task.
pub(crate) const BUDGET: Nanos = Nanos::from_micros(200);

/// What it ends with.
pub(crate) fn code_of(task: Started) -> Result<u64, Failure> {
    match task.end()? {
        Ended::Exited(code) => Ok(code),
        Ended::Stopped(fault) => Err(Failure::new(format_args!("{fault}"))),
    }
}

/// Ends the supervisor; it says how often it was notified, and of what kind of fault it was told.
fn told(supervisor: Started) -> Result<(u64, u64), Failure> {
    start(CLIENT, 6)?.succeeds()?;
    let code = code_of(supervisor)?;
    Ok((code & 0xffff_ffff, code >> 32))
}

/// Starts one that is so important.
pub(crate) fn start_at(
    (number, role): (usize, u64),
    what: u64,
    priority: u8,
) -> Result<Started, Failure> {
    let argument = role << 32 | what;
    let thread = task::start_on(number, argument, 0, Some(priority))?;
    Ok(Started(thread, number))
}

/// Keeps deadlines for so many periods, at all times within one, beside what has the highest priority; says how late this was at most.
pub(crate) fn keep_deadlines(periods: u64) -> Result<Nanos, Failure> {
    let (mut due, mut latest) = (Instant::now(), Nanos::ZERO);
    let end = due + Nanos::from_millis(periods).to_cycles();
    while due < end {
        due = due + Nanos::from_micros(97).to_cycles();
        sleep_until(due)?;
        latest = latest.max((Instant::now() - due).to_nanos());
    }
    Ok(latest)
}

pub(crate) fn overruns(task: (usize, u64)) -> u64 {
    all()[task.0].overruns()
}

target_test! {
    /// An endless loop at the highest priority runs for its budget in each period, to some instructions; a thread beside it keeps
    /// its deadlines, and the supervisor is notified once a period.
    fn an_endless_loop_is_throttled(Alone) {
        let supervisor = start(WATCHES, 0)?;
        let before = overruns(SPENDER);
        let spender = start(SPENDER, 20 << 8)?;
        let latest = keep_deadlines(15)?;
        let code = code_of(spender)?;
        let (shortest, longest) = (code >> 32, code & 0xffff_ffff);
        let budget = BUDGET.to_cycles().get();
        note!("{shortest} to {longest} of {budget} cycles, a deadline beside it was {latest:?} late");
        check!(longest <= budget, "it ran for {longest} of {budget} cycles");
        // The rest is what the kernel takes to throttle it and to have it go on.
        check!(shortest + 1000 >= budget, "it ran for {shortest} of {budget} cycles");
        check!(latest <= BUDGET + Nanos::from_micros(5), "{latest:?} late");
        let nr = overruns(SPENDER) - before;
        check_eq!(nr, 21);
        check_eq!(told(supervisor)?, (nr, 0));
        Ok(())
    }

    /// One that is to be stopped for that is, where it was, and its supervisor is told.
    fn an_endless_loop_is_stopped(Shared) {
        let supervisor = start(WATCHES, 0)?;
        let strict = start(STRICT, 2)?;
        let Ended::Stopped(fault) = strict.end()? else {
            return Err(Failure::new(format_args!("it was not stopped")));
        };
        check_eq!(fault.kind, FaultKind::BudgetOverrun);
        check!(fault.rip > 0x80_0000_0000 && fault.rsp > 0x80_0000_0000, "{fault}");
        check_eq!(told(supervisor)?, (0, FaultKind::BudgetOverrun as u64));
        Ok(())
    }

    /// Who is called runs on the caller's budget. When that ends the call does, and the server goes on by itself and is there for the
    /// next call.
    fn a_budget_is_lent(Shared) {
        lent(SPENDER)
    }

    /// The same of one that is stopped for what it uses itself.
    fn a_budget_that_is_lent_stops_nobody(Shared) {
        lent(STRICT)
    }

    /// A call that has ended by its time-out lends nothing any more, neither to whom it was made nor to whom that has called.
    fn a_time_out_takes_a_budget_back(Shared) {
        let server = start(SERVER, 0)?;
        let other = start((KEEPER.0, SERVER.1), 0)?;
        let before = overruns(SPENDER);
        check_eq!(code_of(start(SPENDER, 3 << 8 | 9)?)?, 0);
        check_eq!(overruns(SPENDER) - before, 0);
        start(CLIENT, 10)?.succeeds()?;
        server.succeeds()?;
        other.succeeds()
    }

    /// Whom the server has called before runs on the budget of whoever calls the server, not for nothing at that one's priority.
    fn a_budget_is_lent_along_a_chain(Alone) {
        let other = start_at((KEEPER.0, SERVER.1), 0, 31)?;
        let server = start_at(SERVER, 0, 30)?;
        let before = overruns(SPENDER);
        let first = start_at((CLIENT.0, SPENDER.1), 5 << 8 | 12, 32)?;
        let spender = start(SPENDER, 5 << 8 | 7)?;
        let latest = keep_deadlines(48)?;
        check_eq!(code_of(first)?, 0);
        check_eq!((code_of(spender)?, overruns(SPENDER) - before), (5, 5));
        check!(latest <= BUDGET + Nanos::from_micros(5), "{latest:?} late");
        start(CLIENT, 10)?.succeeds()?;
        server.succeeds()?;
        other.succeeds()
    }

    /// Who is served along a chain goes on by the budget that is lent to it when a call of its own has ended by its time-out.
    fn a_time_out_takes_no_other_budget_back(Alone) {
        let silent = start_at((KEEPER.0, SPENDER.1), 13, 31)?;
        let last = start_at((CLIENT.0, SERVER.1), 0, 32)?;
        let server = start_at(SERVER, 0, 30)?;
        let before = overruns(SPENDER);
        let spender = start(SPENDER, 5 << 8 | 14)?;
        let latest = keep_deadlines(48)?;
        check_eq!((code_of(spender)?, overruns(SPENDER) - before), (5, 5));
        check!(latest <= BUDGET + Nanos::from_micros(5), "{latest:?} late");
        silent.succeeds()?;
        start((VICTIM.0, SPENDER.1), 15)?.succeeds()?;
        server.succeeds()?;
        last.succeeds()
    }

    /// Calls without end do not evade it, whichever instruction the budget ends at.
    fn calls_do_not_evade_a_budget(Alone) {
        let supervisor = start(WATCHES, 0)?;
        let server = start(SERVER, 0)?;
        let before = overruns(SPENDER);
        let spender = start(SPENDER, 40 << 8 | 3)?;
        let latest = keep_deadlines(35)?;
        let nr_spent = code_of(spender)?;
        let nr = overruns(SPENDER) - before;
        note!("{nr} overruns, {nr_spent} of them in the server, a deadline beside it was {latest:?} late");
        check!((39..=41).contains(&nr), "{nr} overruns");
        check!(nr_spent > 0 && nr_spent < nr, "{nr_spent} of {nr} in the server");
        check!(latest <= BUDGET + Nanos::from_micros(5), "{latest:?} late");
        check_eq!(told(supervisor)?, (nr, 0));
        end(server)
    }
}

/// A task faults as soon as it lives, and begins anew each time, for 30 periods. Says how often its supervisor was told of its budget.
fn begins_anew(task: (usize, u64)) -> Result<u64, Failure> {
    let supervisor = start(WATCHES, task.0 as u32)?;
    let before = (overruns(task), all()[task.0].generation());
    let until = (Instant::now() - Instant::ZERO).to_nanos().get() / 1_000_000 + 30;
    let begun = Instant::now();
    let started = start(task, (until as u32) << 8 | 11)?;
    // It is above this thread at once.
    let kept = (Instant::now() - begun).to_nanos();
    let latest = keep_deadlines(35)?.max(kept);
    check_eq!(code_of(started)?, 0);
    let nr = overruns(task) - before.0;
    let lives = all()[task.0].generation() - before.1;
    note!("{nr} overruns, {lives} lives, a deadline beside them was {latest:?} late");
    check!(
        (29..=31).contains(&nr) && lives > 100,
        "{nr} overruns, {lives} lives"
    );
    check!(latest <= BUDGET + Nanos::from_micros(50), "{latest:?} late");
    let (told, fault) = told(supervisor)?;
    note!("told {told} times, last of fault {fault}");
    // Where the budget ends within a life, that is its last.
    let is_last = fault == FaultKind::BudgetOverrun as u64 && task == STRICT;
    check!(
        is_last || fault == FaultKind::InvalidOpcode as u64,
        "fault {fault}"
    );
    Ok(told)
}

target_test! {
    /// What begins anew again and again uses its budget by that: a thread beside it keeps its deadlines, but for a last life's beginning.
    fn beginning_anew_evades_no_budget(Alone) {
        let told = begins_anew(SPENDER)?;
        check!((29..=31).contains(&told), "{told} notifications");
        Ok(())
    }

    /// Whoever supervises it does not answer at its priority for longer than the budget, since that is nobody's.
    fn a_fault_lends_a_supervisor_no_time(Alone) {
        let supervisor = start_at(WATCHES, 2_000 << 8 | SPENDER.0 as u64, 5)?;
        let spender = start(SPENDER, 30 << 8 | 11)?;
        let latest = keep_deadlines(35)?;
        check_eq!(code_of(spender)?, 0);
        check!(latest <= BUDGET + Nanos::from_micros(50), "{latest:?} late");
        let (_, fault) = told(supervisor)?;
        check_eq!(fault, FaultKind::InvalidOpcode as u64);
        Ok(())
    }

    /// One that is stopped for what it uses itself is not stopped for what its lives' beginnings take.
    fn beginning_anew_is_no_fault(Alone) {
        let told = begins_anew(STRICT)?;
        // Where it ends within a life, which is a small part of the time.
        check!(told < 15, "it was stopped {told} times for its budget");
        Ok(())
    }
}

target_test! {
    /// Whatever the server does while the budget ends, dying among it: a thread beside both keeps its deadlines, and no reply goes where
    /// it does not belong.
    fn a_budget_ends_anywhere(Alone) {
        let mut seen = (0, 0, 0);
        for seed in 1..4 {
            let supervisor = start(WATCHES, SERVER.0 as u32)?;
            let server = start(SERVER, 0)?;
            let lives = all()[SERVER.0].generation();
            let before = overruns(SPENDER);
            let spender = start(SPENDER, seed << 16 | 100 << 8 | 4)?;
            let latest = keep_deadlines(95)?;
            let nr_spent = code_of(spender)?;
            let nr = overruns(SPENDER) - before;
            let lives = all()[SERVER.0].generation() - lives;
            note!("{nr} overruns, {nr_spent} in calls, {lives} lives, {latest:?} late");
            seen = (seen.0 + nr, seen.1 + nr_spent, seen.2 + lives);
            // While it waits its budget is whole again, and is used at the end of its period and in the next one.
            check!(latest <= BUDGET + BUDGET + Nanos::from_micros(5), "{latest:?} late");
            end(server)?;
            let (told, kind) = told(supervisor)?;
            check_eq!((told, kind), (nr, FaultKind::PageFault as u64));
        }
        check!(seen.0 > 60 && seen.1 > 30 && seen.2 > 30, "{seen:?}");
        Ok(())
    }
}

target_test! {
    /// One that feeds its watchdog lives, however long; one that does not is stopped in time, whatever it does or waits for, and its
    /// supervisor is told. Whom it has called answers the next one.
    fn a_watchdog_has_to_be_fed(Shared) {
        check_eq!(code_of(start(WATCHED, 4 << 8 | 5)?)?, 10);
        // Beside this thread, which waits, and while it does not let the task run.
        for (how, is_busy) in (0..16).map(|it| (it / 2, it % 2 != 0)) {
            let supervisor = start(WATCHES, 0)?;
            let server = start(SERVER, 0)?;
            let begun = Instant::now();
            let watched = start(WATCHED, how << 8 | 6)?;
            let time = Nanos::from_micros(500);
            // It comes to what it does before it is kept from that.
            sleep_until(begun + Nanos::from_micros(100).to_cycles())?;
            while is_busy && Instant::now() < begun + time.to_cycles() {}
            let Ended::Stopped(fault) = watched.end()? else {
                return Err(Failure::new(format_args!("{how}: it was not stopped")));
            };
            let took = (Instant::now() - begun).to_nanos();
            check_eq!((how, fault.kind), (how, FaultKind::Watchdog));
            check!(fault.rip > 0x80_0000_0000 && fault.rsp > 0x80_0000_0000, "{how}: {fault}");
            check!(took >= time && took <= time + Nanos::from_micros(20), "{how}: {took:?}");
            check_eq!(told(supervisor)?, (0, FaultKind::Watchdog as u64));
            end(server)?;
        }
        Ok(())
    }
}

target_test! {
    /// Who feeds its watchdog again and again keeps a more important thread from running for no longer the more timers are armed.
    fn feeding_keeps_nobody_waiting(Alone) {
        let begun = Instant::now();
        // Its watchdog's time, half a millisecond from now, comes up to theirs.
        for _ in 0..50 {
            Timer::new(|_, _| (), 0)?.arm(begun + Nanos::from_millis(2).to_cycles());
        }
        let watched = start(WATCHED, 2 << 8 | 19)?;
        let mut latest = Nanos::ZERO;
        for nr in 0..100 {
            let due = begun + Nanos::new(1_300_000 + nr * 3_001).to_cycles();
            sleep_until(due)?;
            latest = latest.max((Instant::now() - due).to_nanos());
        }
        watched.succeeds()?;
        note!("{latest:?} late");
        check!(latest < Nanos::new(500), "{latest:?} late");
        Ok(())
    }
}

thread_stack!(static STACK: [16384; 1]);

static GOES_ON: AtomicBool = AtomicBool::new(false);
static LATEST: AtomicU64 = AtomicU64::new(0);

/// Keeps deadlines as long as it may, and notes how late it was at most, in nanoseconds.
fn keep_on(_: usize) {
    while GOES_ON.load(Relaxed) {
        if let Ok(latest) = keep_deadlines(1) {
            LATEST.fetch_max(latest.get(), Relaxed);
        }
    }
}

target_test! {
    /// A task without a budget, on whichever CPU, is served before one that has one, and is as important: what is done for the second
    /// one is on its budget all the same, so that a thread of that CPU is kept from running for no longer.
    fn who_is_served_before_lends_nobody_time(Stress) {
        let asked = Asked::read()?;
        for first in 0..asked.cpus {
            let last = asked.cpus - 1;
            let supervisor = lives(spread::start(KEEPER.0, WATCHES.1, 0, first, 60)?)?;
            let server = lives(spread::start(SERVER.0, SERVER.1, 0, last, 30)?)?;
            LATEST.store(0, Relaxed);
            GOES_ON.store(true, Relaxed);
            let thread = Builder::new("keeps", 50)?.cpu(last).spawn(&STACK[0], keep_on, 0)?;
            let before = overruns(SPENDER);
            let other = spread::start(CLIENT.0, SPENDER.1, 5 << 8 | 8, first, 99)?;
            let spender = spread::start(SPENDER.0, SPENDER.1, 5 << 8 | 7, last, 99)?;
            let ends = [asked.end(other, 1)?, asked.end(spender, 1)?];
            GOES_ON.store(false, Relaxed);
            thread.join(Instant::after(asked.patience))?;
            let [Ended::Exited(0), Ended::Exited(nr_spent)] = ends else {
                return Err(Failure::new(format_args!("{ends:?}")));
            };
            let latest = Nanos::new(LATEST.load(Relaxed));
            let nr = overruns(SPENDER) - before;
            note!("{nr} overruns, {nr_spent} of them in the server, a deadline beside it was {latest:?} late");
            check!(nr_spent <= nr, "{nr_spent} of {nr}");
            // In real time, others run in between.
            if asked.patience < Nanos::from_secs(1) {
                check_eq!((nr_spent, nr), (5, 5));
                check!(latest < Nanos::from_millis(1), "{latest:?} late");
            }
            asked.succeed([spread::start(CLIENT.0, CLIENT.1, 16, 0, 40)?, server], 1)?;
            asked.succeed([spread::start(CLIENT.0, CLIENT.1, 6, 0, 40)?], 1)?;
            let Ended::Exited(told) = asked.end(supervisor, 1)? else {
                return Err(Failure::new(format_args!("the supervisor was stopped")));
            };
            check_eq!(told >> 32, 0);
        }
        Ok(())
    }
}

/// By itself, with how often its budget was used up in a call; or stopped since its own use was too much.
#[inline(never)]
fn is_expected(ended: &Ended, number: usize, millis: u64) -> bool {
    match ended {
        Ended::Exited(nr_spent) => *nr_spent <= 8 * millis,
        Ended::Stopped(fault) => number == STRICT.0 && fault.kind == FaultKind::BudgetOverrun,
    }
}

target_test! {
    /// Two tasks with a budget and one without call a server that dies of some of their messages, each on a CPU that a seed says:
    /// no reply goes where it does not belong, and all come to their end.
    fn budgets_end_wherever_they_are(Stress) {
        let asked = Asked::read()?;
        const MILLIS: u64 = 20;
        let mut nr = 0;
        for game in 1..5 {
            let word = (asked.seed * 8 + game).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let cpu = |at: u32| (word.wrapping_shr(9 * at + 7) % asked.cpus as u64) as usize;
            let how = (word >> 48) << 16 | MILLIS << 8 | 4;
            let supervisor = lives(spread::start(KEEPER.0, WATCHES.1, SERVER.0 as u64, cpu(0), 60)?)?;
            let server = lives(spread::start(SERVER.0, SERVER.1, 0, cpu(1), 30)?)?;
            let before = overruns(SPENDER) + overruns(STRICT);
            let started = [
                spread::start(CLIENT.0, SPENDER.1, how, cpu(2), 40)?,
                spread::start(SPENDER.0, SPENDER.1, how + (1 << 16), cpu(3), 99)?,
                spread::start(STRICT.0, SPENDER.1, how + (2 << 16), cpu(4), 98)?,
            ];
            for task in started {
                let ended = asked.end(task, MILLIS)?;
                check!(is_expected(&ended, task.0, MILLIS), "{}: {ended:?}", task.0);
            }
            nr += overruns(SPENDER) + overruns(STRICT) - before;
            asked.succeed([spread::start(CLIENT.0, CLIENT.1, 16, 0, 40)?, server], 1)?;
            asked.succeed([spread::start(CLIENT.0, CLIENT.1, 6, 0, 40)?], 1)?;
            let Ended::Exited(_) = asked.end(supervisor, 1)? else {
                return Err(Failure::new(format_args!("the supervisor was stopped")));
            };
        }
        note!("{nr} overruns");
        check!(nr > 4, "{nr} overruns");
        Ok(())
    }
}

target_test! {
    /// A task that its budget's end is to stop, and that comes to wait before that, does not wait on: it is stopped soon.
    fn a_stop_waits_for_nothing(Alone) {
        let mut nr_late = 0;
        for behind in (0..1500).step_by(60) {
            let supervisor = start(WATCHES, 0)?;
            let begun = Instant::now();
            let strict = start(STRICT, behind << 8 | 17)?;
            let ended = strict.end()?;
            let took = (Instant::now() - begun).to_nanos();
            let is_stopped = matches!(ended, Ended::Stopped(_));
            if is_stopped && took > Nanos::from_millis(5) {
                nr_late += 1;
                note!("{behind} ns before: stopped after {took:?}");
            }
            told(supervisor)?;
        }
        check!(nr_late == 0, "{nr_late} of 25");
        Ok(())
    }

    /// One that is kept from running in a call costs those above it next to nothing.
    fn a_stop_that_is_starved(Alone) {
        const PERIOD: Nanos = Nanos::from_millis(1);
        let mut worst = 0;
        let mut begun = Instant::now();
        // Its periods begin with its first life.
        for later in (2_203_000..2_208_000).step_by(20) {
            sleep_until(begun)?;
            let supervisor = start(WATCHES, 0)?;
            let strict = start_at(STRICT, (later % 97) << 8 | 20, 20)?;
            sleep_until(begun + Nanos::new(later).to_cycles())?;
            let nr = interruptions(PERIOD);
            strict.end()?;
            told(supervisor)?;
            while begun < Instant::now() {
                begun = begun + PERIOD.to_cycles();
            }
            if nr > 5 {
                note!("{later} ns later: {nr} interrupts");
            }
            worst = worst.max(nr);
        }
        note!("{worst} interrupts in a millisecond at most");
        check!(worst <= 5, "{worst} interrupts in a millisecond");
        Ok(())
    }

    /// One that comes to wait for a reply lends nothing for long: those beside the server are not late.
    fn a_stop_lends_nothing(Alone) {
        nobody_is_late((400..1000).step_by(20), |behind| {
            let supervisor = start(WATCHES, 0)?;
            let latest = beside_a_call(STRICT, behind << 8 | 16)?;
            told(supervisor)?;
            Ok(latest)
        })
    }

    /// The same where its own budget ends as it comes to wait, and it is throttled.
    fn a_throttle_lends_nothing(Alone) {
        nobody_is_late((400..1000).step_by(10), |behind| beside_a_call(SPENDER, behind << 8 | 16))
    }

    /// A budget that is lent ends where the server comes to wait itself: the caller goes on, and has nothing left.
    fn a_budget_ends_where_the_server_waits(Alone) {
        nobody_is_late((1200..1700).step_by(20), |behind| beside_a_call(SPENDER, behind << 8 | 18))
    }

    /// A server more important than its client, which has a budget, has another one work once it has replied: on its own account, and
    /// to the end.
    fn a_reply_ends_a_loan(Alone) {
        let other = start_at((KEEPER.0, SERVER.1), 0, 40)?;
        let server = start_at((SERVER.0, SPENDER.1), 1_000 << 8 | 21, 30)?;
        let before = overruns(SPENDER);
        let spender = start_at(SPENDER, 23, 20)?;
        sleep_until(Instant::after(Nanos::from_millis(20)))?;
        check!(all()[SERVER.0].ended().is_some(), "whom the server asked goes on for ever");
        check!(code_of(spender)? == 0 && code_of(server)? == 0, "a call has failed");
        check!(overruns(SPENDER) == before, "it was charged to the client");
        other.succeeds()
    }
}

/// Computes for so long, and says how often it was interrupted.
fn interruptions(time: Nanos) -> u64 {
    let (mut before, mut nr) = (Instant::now(), 0);
    let end = before + time.to_cycles();
    while before < end {
        let now = Instant::now();
        nr += u64::from((now - before).to_nanos() > Nanos::new(150));
        before = now;
    }
    nr
}

/// Has this done at each of these times, which says how late a thread beside it was: by two budgets at most.
pub(crate) fn nobody_is_late(
    times: impl Iterator<Item = u32>,
    mut latest_at: impl FnMut(u32) -> Result<Nanos, Failure>,
) -> Outcome {
    let (mut worst, mut nr_late) = (Nanos::ZERO, 0);
    for time in times {
        let latest = latest_at(time)?;
        if latest > BUDGET + BUDGET + Nanos::from_micros(5) {
            nr_late += 1;
            note!("{time}: {latest:?} late");
        }
        worst = worst.max(latest);
    }
    note!("{worst:?} late at most");
    check!(nr_late == 0, "{nr_late} times too late, {worst:?} at most");
    Ok(())
}

/// How late a thread is beside a task that calls the server at its budget's end.
fn beside_a_call(task: (usize, u64), what: u32) -> Result<Nanos, Failure> {
    let server = start_at(SERVER, 0, 30)?;
    let task = start(task, what)?;
    let latest = keep_deadlines(32)?;
    task.end()?;
    end(server)?;
    Ok(latest)
}

fn end(server: Started) -> Outcome {
    start(CLIENT, 16)?.succeeds()?;
    server.succeeds()
}

fn lent(task: (usize, u64)) -> Outcome {
    let supervisor = start(WATCHES, 0)?;
    let server = start(SERVER, 0)?;
    let before = overruns(task);
    let code = code_of(start(task, 5 << 8 | 1)?)?;
    check_eq!(code, 0);
    check_eq!(overruns(task) - before, 5);
    let (nr, fault) = told(supervisor)?;
    check_eq!(fault, 0);
    note!("{nr} notifications");
    end(server)
}
