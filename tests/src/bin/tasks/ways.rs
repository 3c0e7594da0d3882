//! Messages go two ways, a short one in assembly and a long one in Rust: what comes of them is the same.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use takt_kernel::task::{Ended, all};
use takt_kernel::thread::{self, count_times, yield_now};
use takt_kernel::time::{Instant, Nanos, sleep};
use takt_tests::harness::{Failure, Outcome};
use takt_tests::{check, check_eq, target_test, worker};

use crate::{CLIENT, KEEPER, SERVER, Started, VICTIM, start};

/// A server at the keeper's priority, and a client at the victim's.
const UPPER: (usize, u64) = (KEEPER.0, SERVER.1);
const SECOND: (usize, u64) = (VICTIM.0, CLIENT.1);

/// Nanoseconds between two times at which clients act.
const STEP: u64 = 4_000_000;

/// A client's random sequence.
const MIX: u32 = 9;

fn sum_of(client: Started) -> Result<u64, Failure> {
    match client.end()? {
        Ended::Exited(sum) => Ok(sum),
        Ended::Stopped(fault) => Err(Failure::new(format_args!("{fault}"))),
    }
}

/// No task has a priority but its own.
fn nobody_inherits() -> Outcome {
    let mut wrong = None;
    thread::for_each(|info| {
        let own = [(KEEPER, 60), (SERVER, 30)];
        for ((number, _), priority) in own {
            if info.name == all()[number].name() && info.priority != priority {
                wrong = Some((info.name, info.priority));
            }
        }
    });
    check_eq!(wrong, None);
    Ok(())
}

/// What two clients find that call two servers in random sequences, of which one calls the other.
fn mixed(seed: u32) -> Result<[u64; 2], Failure> {
    // Both clients begin right behind a whole step of theirs.
    let now = (Instant::now() - Instant::ZERO).to_nanos().get();
    sleep(Nanos::new(STEP - now % STEP))?;
    let servers = [start(UPPER, 0xff)?, start(SERVER, 0xff)?];
    let clients = [
        start(CLIENT, MIX | seed << 8)?,
        start(SECOND, MIX | (seed + 1) << 8)?,
    ];
    let [first, second] = clients.map(sum_of);
    sleep(Nanos::from_millis(1))?;
    nobody_inherits()?;
    start(CLIENT, 10)?.succeeds()?;
    for server in servers {
        server.succeeds()?;
    }
    Ok([first?, second?])
}

static GOES_ON: AtomicBool = AtomicBool::new(false);

/// Preempts all of them, over and over, each time somewhere else.
fn disturb(_: usize) {
    let mut pause = 0;
    while GOES_ON.load(Relaxed) {
        pause = (pause + 37) % 1009;
        let _ = sleep(Nanos::new(500 + pause));
    }
}

fn spin(_: usize) {
    while GOES_ON.load(Relaxed) {
        yield_now();
    }
}

/// What becomes of a fault, as one number: what the supervisor is told, and what is recorded.
#[inline(never)]
fn found_of(what: u32, is_long: bool) -> Result<u64, Failure> {
    count_times(is_long)?;
    let keeper = start(KEEPER, 0)?;
    let ended = start(VICTIM, what)?.end();
    count_times(false)?;
    let told = sum_of(start(CLIENT, 12)?)?;
    keeper.succeeds()?;
    // Looked at where it is: a copy takes more SSE registers than interrupts keep elsewhere.
    let Ok(Ended::Stopped(fault)) = &ended else {
        return Err(Failure::new(format_args!("{what} was not stopped")));
    };
    let own = [
        fault.kind as u64,
        fault.code,
        fault.address,
        fault.rip,
        fault.rsp,
    ];
    let all = own.iter().chain(&fault.registers);
    Ok(all.fold(told, |sum, word| sum.rotate_left(7) ^ word))
}

target_test! {
    /// Random sequences of calls, replies and notifications, the same ones by both ways: each result is the same, and the order in
    /// which a server has received them. So they are where a thread preempts everyone wherever it may.
    fn both_come_to_the_same(Alone) {
        for seed in (2..14).step_by(2) {
            let short = mixed(seed)?;
            GOES_ON.store(true, Relaxed);
            let thread = worker::spawn(0, 70, disturb, 0)?;
            let disturbed = mixed(seed);
            count_times(true)?;
            let long = mixed(seed);
            count_times(false)?;
            GOES_ON.store(false, Relaxed);
            worker::join(&[thread])?;
            check_eq!(disturbed?, short);
            check_eq!(long?, short);
        }
        Ok(())
    }

    /// Faults of which the supervisor is told by both ways: it is told the same, and the same is recorded.
    fn a_fault_is_the_same(Alone) {
        for what in [0, 5, 9, 10, 24, 25] {
            let short = found_of(what, false)?;
            check_eq!(found_of(what, true)?, short);
        }
        Ok(())
    }

    /// A thread that would not let the server run, but is less important than its client, keeps neither from going on.
    fn a_server_is_as_important_as_its_client(Alone) {
        for is_long in [false, true] {
            count_times(is_long)?;
            let server = start(SERVER, 0)?;
            GOES_ON.store(true, Relaxed);
            let spinner = worker::spawn(0, 35, spin, 0)?;
            let result = start(CLIENT, 5)?.end();
            GOES_ON.store(false, Relaxed);
            worker::join(&[spinner])?;
            count_times(false)?;
            check!(matches!(result?, Ended::Exited(0)), "long: {is_long}");
            server.succeeds()?;
        }
        Ok(())
    }
}
