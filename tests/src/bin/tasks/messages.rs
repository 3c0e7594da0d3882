//! Messages: calls and replies, rights, and what becomes of them when a task dies.

use takt_abi::FaultKind;
use takt_kernel::task::{Ended, all};
use takt_kernel::thread::count_times;
use takt_kernel::time::{Instant, Nanos, sleep_until};
use takt_kernel::trace::{self, events};
use takt_tests::harness::{Failure, print};
use takt_tests::{check, check_eq, note, target_test};

use crate::{CLIENT, KEEPER, SERVER, Started, VICTIM, start};

/// What it ends with.
fn code_of(task: Started) -> Result<u64, Failure> {
    match task.end()? {
        Ended::Exited(code) => Ok(code),
        Ended::Stopped(fault) => Err(Failure::new(format_args!("{fault}"))),
    }
}

/// The keeper in other roles.
const BELL: (usize, u64) = (KEEPER.0, 5);
const SUPERVISOR: (usize, u64) = (KEEPER.0, 6);
/// One with a watchdog, as a client.
const WATCHED: (usize, u64) = (7, CLIENT.1);

target_test! {
    /// A task calls another, which has all six words and the badge, and its reply comes back; notifications are added up.
    fn a_call_is_answered(Shared) {
        let server = start(SERVER, 0xff)?;
        start(CLIENT, 0)?.succeeds()?;
        server.succeeds()
    }

    /// What a handle does not allow is refused, and what is no handle.
    fn handles_allow_what_they_were_given_for(Shared) {
        let server = start(SERVER, 0)?;
        start(CLIENT, 1)?.succeeds()?;
        server.succeeds()
    }

    /// A task that dies of a message: the caller is told, its supervisor as well, which has it begin anew; then the old handle
    /// means nobody.
    fn the_dead_do_not_answer(Shared) {
        let keeper = start(KEEPER, 1)?;
        let server = start(SERVER, 0)?;
        let first = all()[SERVER.0].generation();
        start(CLIENT, 2)?.succeeds()?;
        let ended = server.end()?;
        check!(matches!(ended, Ended::Stopped(_)), "it was {ended:?}");
        check_eq!(all()[SERVER.0].generation(), first + 1);
        // Started again it is another one, too.
        let again = start(SERVER, 0)?;
        check_eq!(all()[SERVER.0].generation(), first + 2);
        start(CLIENT, 1)?.succeeds()?;
        again.succeeds()?;
        keeper.succeeds()
    }

    /// Time, sleep and time-outs.
    fn time_passes(Shared) {
        start(CLIENT, 3)?.succeeds()
    }

    /// A call's time-out, also zero and never: the server's reply goes nowhere, and the next call is answered. A circle is refused.
    fn a_call_has_an_end(Shared) {
        let server = start(SERVER, 0)?;
        start(CLIENT, 8)?.succeeds()?;
        server.succeeds()
    }

    /// Semaphores: what a handle does not allow is refused, a wait has an end, zero and never too, and a permit comes to whom it wakes.
    fn semaphores_are_taken_and_given(Shared) {
        let server = start(SERVER, 0)?;
        start(CLIENT, 22)?.succeeds()?;
        server.succeeds()
    }

    /// Who is stopped while it waits for a permit has left the queue, in each of its lives: another one has the permit that comes then.
    fn who_dies_waiting_takes_no_permit(Shared) {
        let before = all()[WATCHED.0].generation();
        let keeper = start(KEEPER, 3)?;
        let ended = start(WATCHED, 23)?.end()?;
        check!(matches!(ended, Ended::Stopped(fault) if fault.kind == FaultKind::Watchdog), "it was {ended:?}");
        check!(all()[WATCHED.0].generation() >= before + 3, "too few lives");
        let server = start(SERVER, 0)?;
        start(CLIENT, 24)?.succeeds()?;
        server.succeeds()?;
        start(CLIENT, 6)?.succeeds()?;
        keeper.succeeds()
    }

    /// A task that logs without end: what is too much is dropped at once, so that it takes no long time either.
    fn a_flood_of_lines_is_dropped(Alone) {
        let begun = Instant::now();
        start(CLIENT, 14)?.succeeds()?;
        let took = (Instant::now() - begun).to_nanos();
        note!("{took:?}");
        check!(took < Nanos::from_millis(1), "a thousand lines took {took:?}");
        Ok(())
    }

    /// Nothing that a task has in the FPU, MXCSR and x87's words too, goes to whom it calls, to its next life, or is lost, by either way.
    fn registers_are_each_tasks_own(Shared) {
        for is_counted in [false, true] {
            count_times(is_counted)?;
            let server = start((SERVER.0, 25), 0)?;
            start((CLIENT.0, 24), 0)?.succeeds()?;
            server.succeeds()?;
        }
        count_times(false)?;
        Ok(())
    }

    /// Nor does it go to a task that preempts it, or is lost to that.
    fn registers_outlast_a_preemption(Shared) {
        let spins = start((SERVER.0, 26), 0)?;
        start((CLIENT.0, 26), 1)?.succeeds()?;
        spins.succeeds()
    }

    /// Each call is recorded when it begins, when it is done, or both, one that does nothing too. What is off again costs nothing.
    fn calls_are_traced(Alone) {
        let cost = || {
            let server = start(SERVER, 0)?;
            let code = code_of(start(CLIENT, 4)?)?;
            server.succeeds()?;
            Ok::<_, Failure>((code & 0xffff_ffff, code >> 32))
        };
        let before = cost()?;
        let [entry, exit] = [&events::syscall_entry::ID, &events::syscall_exit::ID].map(|id| core::ptr::from_ref(id) as u32);
        trace::tracing_on();
        // Of the client and of the server 19 and 13 calls, of which each one's last ends it.
        for (begins, ends, records) in [(true, false, 32), (false, true, 30), (true, true, 62)] {
            trace::enable(entry, begins)?;
            trace::enable(exit, ends)?;
            let nr = trace::counters_of(0).entries;
            let (null, call) = cost()?;
            let nr = trace::counters_of(0).entries - nr;
            note!("null call {null}, call and reply {call}");
            check_eq!(nr, records);
            check!(null > 35, "a null call takes {null} instructions");
        }
        trace::enable(entry, false)?;
        check!(cost()?.0 > 35, "the other one is on yet");
        trace::enable(exit, false)?;
        check_eq!(cost()?, before);
        Ok(())
    }

    /// Exact instructions that the kernel takes for a call that does nothing, for a message and its reply between two address spaces,
    /// and from a fault to the supervisor.
    fn calls_are_short(Alone) {
        let server = start(SERVER, 0)?;
        let code = code_of(start(CLIENT, 4)?)?;
        server.succeeds()?;
        let (null, call) = (code & 0xffff_ffff, code >> 32);
        check!(null <= 35, "a null call takes {null} instructions");
        check!(call <= 180, "a call and its reply take {call} instructions");
        let supervisor = start(SUPERVISOR, 0)?;
        let Ended::Stopped(_) = start(VICTIM, 28)?.end()? else {
            return Err(Failure::new(format_args!("it was not stopped")));
        };
        let costs = code_of(start(CLIENT, 7)?)?;
        supervisor.succeeds()?;
        let [fault, reply, restart] = [costs & 0xffff, costs >> 16 & 0xffff, costs >> 32];
        // Of a thread of the kernel's, and of a task's, where nothing else is armed.
        let due = Instant::after(Nanos::from_micros(100));
        sleep_until(due)?;
        let kernel = Instant::now().cycles() - due.cycles();
        let user = match start(CLIENT, 13)?.end_at_last()? {
            Ended::Exited(code) => code,
            other => return Err(Failure::new(format_args!("{other:?}"))),
        };
        note!("from a deadline to a thread {kernel}, in ring 3 {user}");
        let bell = start(BELL, 0)?;
        let notify = code_of(start(CLIENT, 11)?)?;
        bell.succeeds()?;
        note!("null call {null}, call and reply {call}, notification {notify}");
        note!("fault to supervisor {fault}, its reply {reply}, restart {restart}");
        check!(user <= kernel + 15, "a deadline reaches ring 3 after {user} instructions, a thread after {kernel}");
        check!(notify <= 120, "a notification takes {notify} instructions");
        check!(fault <= 150, "a fault takes {fault} instructions to the supervisor");
        check!(reply <= 140, "the reply to a fault takes {reply} instructions");
        // Its data and its stack: a page each, in words.
        let copied = 8192 / 8;
        check!(restart <= 2000 + copied, "a restart takes {restart} instructions");
        let all = [
            ("null-call", null),
            ("call-reply", call),
            ("notify", notify),
            ("fault", fault),
            ("fault-reply", reply),
            ("restart", restart),
            ("deadline", user),
            ("deadline-kernel", kernel),
        ];
        for (name, value) in all {
            print(format_args!("bench task-{name} insn {value}\n"));
        }
        Ok(())
    }

    /// A wild write of one task: the others do not notice.
    fn a_wild_write_harms_nobody(Shared) {
        let keeper = start(KEEPER, 0)?;
        let server = start(SERVER, 0)?;
        let client = start(CLIENT, 5)?;
        let victim = start(VICTIM, 1)?;
        let ended = victim.end()?;
        check!(matches!(ended, Ended::Stopped(_)), "it was {ended:?}");
        client.succeeds()?;
        server.succeeds()?;
        start(CLIENT, 6)?.succeeds()?;
        keeper.succeeds()
    }
}
