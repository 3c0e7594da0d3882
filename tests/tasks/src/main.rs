//! All that the tasks of the on-target tests do: each is told by its argument what it is.
#![no_std]
#![no_main]

mod budget;
mod chain;
mod client;
mod collusion;
mod driver;
mod fuzz;
mod harm;
mod lease;
mod measured;
mod mix;
mod raw;
mod registers;
mod spread;
mod team;

use takt_user::abi::fault;
use takt_user::{
    Error, Instant, Nanos, Peer, Semaphore, exit, receive, reply_and_receive, sleep_until,
};

takt_user::entry!(main);

/// The argument's high half, but for what [`FUZZ_KEEPER`] has there.
const KEEPER: u64 = 1;
const SERVER: u64 = 2;
const CLIENT: u64 = 3;
const VICTIM: u64 = 4;
const BELL: u64 = 5;
const SUPERVISOR: u64 = 6;
const MEASURED: u64 = 7;
const DRIVER: u64 = 8;
/// Of tasks on several CPUs.
const HUB: u64 = 18;
const NODE: u64 = 9;
const ASKS: u64 = 10;
const ASKS_AND_DIES: u64 = 11;
const LENDS: u64 = 12;
/// Of one that does whatever it can, and of those beside it.
const FUZZES: u64 = 13;
const FUZZ_KEEPER: u64 = 14;
const FUZZ_SERVER: u64 = 15;
const OBSERVES: u64 = 16;
const CONTROLS: u64 = 17;
/// Of one that has a budget, and of its supervisor.
const SPENDS: u64 = 19;
const WATCHES: u64 = 20;
/// Of one that lends its memory, and of whom it lends that.
const LENDS_MEMORY: u64 = 21;
const BORROWS: u64 = 22;
/// Of one with several threads.
const TEAM: u64 = 23;
/// Of those that have something in all registers while they call.
const ASKS_WITH_REGISTERS: u64 = 24;
const ANSWERS_WITH_REGISTERS: u64 = 25;
/// Of those that have something in all registers while the other one runs.
const HOLDS_REGISTERS: u64 = 26;
/// Of those that call each other along a chain, and of the first one.
const RELAYS: u64 = 27;
const GIVES_UP: u64 = 28;
/// Of those that would evade budgets together.
const COLLUDES: u64 = 29;

fn main(argument: u64) {
    let what = argument & 0xffff_ffff;
    match argument >> 32 & 0xff {
        KEEPER => keeper(what),
        SERVER => server(what),
        CLIENT => client::run(what),
        VICTIM => harm::run(what),
        BELL => mix::bell(),
        SUPERVISOR => mix::supervisor(),
        MEASURED => measured::run(what),
        DRIVER => driver::run(what),
        HUB => spread::hub(),
        NODE => spread::server(),
        ASKS => spread::client(what, true),
        ASKS_AND_DIES => spread::client(what, false),
        LENDS => spread::lender(what),
        FUZZES => fuzz::run(what),
        FUZZ_KEEPER => fuzz::keeper(argument),
        FUZZ_SERVER => fuzz::server(),
        OBSERVES => fuzz::observer(what),
        CONTROLS => fuzz::control(what),
        SPENDS => budget::run(what),
        WATCHES => budget::watch(what),
        LENDS_MEMORY => lease::client(what),
        BORROWS => lease::server(),
        TEAM => team::run(what),
        ASKS_WITH_REGISTERS => registers::ask(),
        ANSWERS_WITH_REGISTERS => registers::answer(),
        HOLDS_REGISTERS => registers::hold(what != 0),
        RELAYS => chain::relay(what),
        GIVES_UP => chain::give_up(what),
        COLLUDES => collusion::run(what),
        _ => exit(99),
    }
}

/// With how often a task begins anew.
const SLOWLY: u64 = 1 << 31;

/// Supervises: faults of tasks are told to whoever calls, and a task begins anew as often as the argument says. A call of
/// 0 tells of the last fault, any other ends it. With [`SLOWLY`] it takes its time before each.
fn keeper(what: u64) {
    let (is_slow, mut restarts) = (what & SLOWLY != 0, what & !SLOWLY);
    let mut last = [0; 6];
    let Ok(mut received) = receive(0, Instant::NEVER) else {
        exit(1)
    };
    loop {
        let Some(call) = received.call else { exit(2) };
        // SAFETY: reads a counter.
        let now = unsafe { core::arch::x86_64::_rdtsc() };
        let mut answer = last;
        if call.is_fault {
            last = call.message;
            // In the place of the stack pointer.
            last[fault::RSP] = now;
            let again = restarts > 0;
            if is_slow && again {
                sleep_until(Instant::after(Nanos::new(20_000 + 7 * restarts)));
            }
            restarts = restarts.saturating_sub(1);
            answer = [0; 6];
            answer[0] = if again { fault::RESTART } else { fault::STOP };
        } else if call.message[0] != 0 {
            if takt_user::reply(answer).is_err() {
                exit(3);
            }
            return;
        }
        let Ok(next) = reply_and_receive(answer, 0, Instant::NEVER) else {
            exit(4)
        };
        received = next;
    }
}

/// What the base of `fs` is.
fn fs_base() -> u64 {
    let base;
    // SAFETY: reads a register.
    unsafe { core::arch::asm!("rdfsbase {}", out(reg) base, options(nomem, nostack)) };
    base
}

/// Adds up: replies with what each word is plus its place and the badge. It ends with a message of which the first word is 0,
/// and by a fault if that is 1; with 4 it takes its time, with 5 it calls whoever calls,
/// with [`RING`](client::RING) it gives the bell once it has replied, with 6 it is an [`echo`](mix::echo) from then on, with 7 it asks another server, with 8 it says how many it has received, with
/// [`HAVE_WORK_DONE`](budget::HAVE_WORK_DONE) it has another server work, with [`PASS_ON`](budget::PASS_ON) when that has given up a call, and with [`WORK`](budget::WORK) it works for as many nanoseconds as the second one says.
fn server(mask: u64) {
    let Ok(mut received) = receive(mask as u32, Instant::NEVER) else {
        exit(1)
    };
    let (mut bits, mut nr_received) = (0, 0);
    loop {
        bits |= received.bits;
        let Some(call) = received.call else {
            match receive(mask as u32, Instant::NEVER) {
                Ok(next) => received = next,
                Err(_) => exit(2),
            }
            continue;
        };
        let mut answer = call.message;
        nr_received += 1;
        match answer[0] {
            0 => {
                let _ = takt_user::reply(answer);
                return;
            }
            1 => harm::run(harm::WRITE),
            2 => answer[1] = bits.into(),
            3 => answer[1] = fs_base(),
            4 => sleep_until(Instant::after(Nanos::new(2_000_000))),
            5 => {
                let peer = Peer::new(0);
                // It began to live after this task.
                let result = peer.renew().and_then(|()| peer.call([9; 6]));
                answer[1] = result.err().map_or(0, |error| error as u64);
            }
            6 => {
                if takt_user::reply(answer).is_err() {
                    exit(4);
                }
                return mix::echo();
            }
            7 => {
                let peer = Peer::new(1);
                let result = peer.renew().and_then(|()| peer.call([answer[1]; 6]));
                answer = result.unwrap_or([0; 6]);
            }
            8 => answer[1] = nr_received,
            client::RING => {
                if takt_user::reply(answer).is_err() || Semaphore::new(0).give().is_err() {
                    exit(8);
                }
                match receive(mask as u32, Instant::NEVER) {
                    Ok(next) => received = next,
                    Err(_) => exit(9),
                }
                continue;
            }
            client::GIVE_WITHOUT_RIGHT => {
                answer[1] = Semaphore::new(1).give().err().map_or(0, |it| it as u64);
            }
            budget::HAVE_WORK_DONE => {
                let peer = Peer::new(1);
                let message = [budget::WORK, answer[1], 0, 0, 0, 0];
                if peer.renew().and_then(|()| peer.call(message)).is_err() {
                    exit(5);
                }
            }
            budget::PASS_ON => {
                let peer = Peer::new(0);
                let message = [budget::WORK_LATER, answer[1], 0, 0, 0, 0];
                if peer.renew().and_then(|()| peer.call(message)).is_err() {
                    exit(6);
                }
            }
            budget::WORK_LATER if answer[1] == 0 => {
                let _ = takt_user::reply(answer);
                return;
            }
            budget::WORK_LATER => {
                let peer = Peer::new(1);
                let result = peer
                    .renew()
                    .and_then(|()| peer.call_until([0; 6], Instant::from_nanos(0)));
                if result != Err(Error::TimedOut) {
                    exit(7);
                }
                budget::work_until(Instant::after(Nanos::new(answer[1])));
            }
            budget::WORK => budget::work_until(Instant::after(Nanos::new(answer[1]))),
            _ => {
                for (place, word) in answer.iter_mut().enumerate() {
                    *word += place as u64 + u64::from(call.badge);
                }
            }
        }
        match reply_and_receive(answer, mask as u32, Instant::NEVER) {
            Ok(next) => received = next,
            Err(_) => exit(3),
        }
    }
}
