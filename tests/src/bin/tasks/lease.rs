//! Leases: memory that a task lends with a message, until it goes on.

use takt_abi::{Error, FaultKind};
use takt_kernel::task::Ended;
use takt_kernel::time::Nanos;
use takt_tests::harness::{Failure, Outcome, print};
use takt_tests::{check, check_eq, note, target_test};

use crate::spread::{self, Asked, lives};
use crate::{CLIENT, KEEPER, SERVER, Started, VICTIM, start};

/// What the tasks are told that they are.
const LENDS: u64 = 21;
const BORROWS: (usize, u64) = (SERVER.0, 22);
/// A task with a budget of 200 µs in each millisecond, and one whose watchdog bites after 500 µs.
const SPENDER: usize = 5;
const WATCHED: usize = 7;

/// What the server has to say then.
const REVOKED: u64 = 1 << 32 | Error::Revoked as u64;

/// Starts a task that lends its memory in this way.
fn lend(task: usize, how: u32) -> Result<Started, Failure> {
    start((task, LENDS), how)
}

fn code_of(task: Started) -> Result<u64, Failure> {
    match task.end()? {
        Ended::Exited(code) => Ok(code),
        Ended::Stopped(fault) => Err(Failure::new(format_args!("{fault}"))),
    }
}

/// The server has used what it was lent, until it was not any more.
fn was_revoked(server: Started) -> Outcome {
    check_eq!(
        code_of(lend(CLIENT.0, 9)?)?,
        1 << 32 | Error::Revoked as u64
    );
    lend(CLIENT.0, 8)?.succeeds()?;
    server.succeeds()
}

target_test! {
    /// Windows of all sizes and alignments are read and written, and nothing beside them.
    fn memory_is_lent(Shared) {
        let server = start(BORROWS, 0)?;
        lend(CLIENT.0, 0)?.succeeds()?;
        server.succeeds()
    }

    /// What a task does not have it cannot lend, nor more than the borders of its parts, nor for more than it may do itself; whom it lends
    /// it has no more than that, and copies from and to its own memory only, while the lender waits.
    fn what_a_task_has_not_it_cannot_lend(Shared) {
        let server = start(BORROWS, 0)?;
        lend(CLIENT.0, 1)?.succeeds()?;
        server.succeeds()
    }

    /// A region is lent by whom it belongs to, to be written to by who may; a device's memory is not.
    fn a_region_is_lent(Shared) {
        let server = start(BORROWS, 0)?;
        lend(VICTIM.0, 0x7fd << 8 | 5)?.succeeds()?;
        server.succeeds()
    }

    /// A time-out at any instruction: from then on the memory is the lender's.
    fn a_time_out_revokes(Shared) {
        let server = start(BORROWS, 0)?;
        lend(CLIENT.0, 2)?.succeeds()?;
        server.succeeds()
    }

    /// Of a server that dies: its caller has its memory again, and the next life has nothing of it.
    fn the_death_of_the_server_revokes(Shared) {
        let keeper = start(KEEPER, 1)?;
        let server = start(BORROWS, 0)?;
        lend(CLIENT.0, 3)?.succeeds()?;
        check!(matches!(server.end()?, Ended::Exited(0)));
        start(CLIENT, 6)?.succeeds()?;
        keeper.succeeds()
    }

    /// Of one that lends and is stopped while it waits: its next life has what it begins with.
    fn the_death_of_the_lender_revokes(Shared) {
        let keeper = start(KEEPER, 3)?;
        let server = start(BORROWS, 0)?;
        let Ended::Stopped(fault) = lend(WATCHED, 6)?.end()? else {
            return Err(Failure::new(format_args!("it was not stopped")));
        };
        check_eq!(fault.kind, FaultKind::Watchdog);
        was_revoked(server)?;
        start(CLIENT, 6)?.succeeds()?;
        keeper.succeeds()
    }

    /// The same where they are on different CPUs, in each way.
    fn the_death_of_a_lender_elsewhere_revokes(Stress) {
        let asked = Asked::read()?;
        let last = asked.cpus - 1;
        for (first, last) in (0..asked.cpus).map(|it| (it, last)).chain([(last, 0)]) {
            let keeper = lives(spread::start(KEEPER.0, KEEPER.1, 3, first, 60)?)?;
            let server = lives(spread::start(BORROWS.0, BORROWS.1, 0, last, 30)?)?;
            let lender = spread::start(WATCHED, LENDS, 6, first, 45)?;
            let code = match &asked.end(lender, 1)? {
                Ended::Stopped(fault) => fault.kind as u64,
                Ended::Exited(code) => !code,
            };
            check_eq!(code, FaultKind::Watchdog as u64);
            let told = asked.end(spread::start(CLIENT.0, LENDS, 9, 0, 40)?, 1)?;
            // In real time it may not have come to it.
            if asked.patience < Nanos::from_secs(1) {
                check!(matches!(told, Ended::Exited(REVOKED)));
            }
            asked.succeed([spread::start(CLIENT.0, LENDS, 8, 0, 40)?, server], 1)?;
            asked.succeed([spread::start(CLIENT.0, CLIENT.1, 6, 0, 40)?, keeper], 1)?;
        }
        note!("{} operations", asked.cpus + 1);
        Ok(())
    }

    /// A budget that ends in the server.
    fn the_end_of_a_budget_revokes(Shared) {
        let server = start(BORROWS, 0)?;
        lend(SPENDER, 7)?.succeeds()?;
        was_revoked(server)
    }

    /// Exact instructions of the kernel to copy 1 KiB, and of all that a message which lends and its reply take.
    fn leases_are_short(Alone) {
        let server = start(BORROWS, 0)?;
        let code = code_of(lend(CLIENT.0, 4)?)?;
        server.succeeds()?;
        let (read, write, call) = (code & 0xffff, code >> 16 & 0xffff, code >> 32);
        note!("1 KiB read {read}, written {write}; call that lends, and reply {call}");
        let longer = read.max(write);
        check!(longer <= 450, "1 KiB takes {longer} instructions");
        print(format_args!("bench task-lease insn {longer}\n"));
        print(format_args!("bench task-call-lending insn {call}\n"));
        Ok(())
    }
}
