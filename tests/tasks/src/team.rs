//! A task with three threads, one more and one less important than the first.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_user::{Error, Instant, Lease, Leased, Peer, exit, receive, reply, reply_and_receive};
use takt_user::{Nanos, Semaphore, sleep_until, yield_now};

use crate::{mix, registers};

takt_user::thread!(team_high, high);
takt_user::thread!(team_low, low);
takt_user::thread!(brittle_high, fails);

const LOW: Peer = Peer::new(0);
const HIGH: Peer = Peer::new(1);

/// What the first thread is told to do.
const TALK: u64 = 0;
const FAULT_HIGH: u64 = 1;
const FAULT_LOW: u64 = 2;
const FAULT_FIRST: u64 = 3;
const EXIT: u64 = 4;
const RETURN: u64 = 5;
const MEASURE: u64 = 6;
const HASH: u64 = 7;
const FAULT_AT_ONCE: u64 = 8;
const HOLD: u64 = 10;
const WAIT: u64 = 11;

/// What this life is for, once it is known, and one more.
static WHAT: AtomicU64 = AtomicU64::new(0);
/// How often something was done in this life.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Ends the task with the line's number unless it holds.
macro_rules! holds {
    ($condition:expr) => {
        if !$condition {
            takt_user::log!("{} does not hold", stringify!($condition));
            exit(line!().into());
        }
    };
}

pub(crate) fn run(what: u64) {
    WHAT.store(what + 1, Relaxed);
    match what {
        TALK => talk(),
        FAULT_LOW | 9 => sleep_until(Instant::NEVER),
        FAULT_HIGH => {
            // It ends with the thread that is called.
            let _ = HIGH.call([1; 6]);
            spin();
        }
        FAULT_AT_ONCE => fault(),
        FAULT_FIRST | WAIT => {
            sleep_until(Instant::after(Nanos::new(50_000)));
            fault();
        }
        EXIT => {
            sleep_until(Instant::after(Nanos::new(50_000)));
            exit(COUNT.load(Relaxed));
        }
        RETURN => {
            // Someone else has a call or two.
            sleep_until(Instant::after(Nanos::new(1_000_000)));
            returns();
        }
        MEASURE => {
            // The other one has begun to wait.
            sleep_until(Instant::after(Nanos::new(1_000_000)));
            exit(mix::cost_of_calls()[1]);
        }
        HOLD => registers::ask(),
        _ => hash(0),
    }
}

fn high(argument: u64) {
    holds_argument(argument, 7);
    match what() {
        FAULT_HIGH => {
            let _ = receive(0, Instant::NEVER);
            fault();
        }
        FAULT_FIRST | EXIT => {
            // Waits for what does not come.
            let _ = receive(1, Instant::NEVER);
        }
        FAULT_LOW => sleep_until(Instant::NEVER),
        WAIT => wait(),
        HASH => hash(1),
        _ => serve(),
    }
}

fn low(argument: u64) {
    holds_argument(argument, 9);
    match what() {
        FAULT_LOW => fault(),
        9 => {
            let _ = receive(0, Instant::NEVER);
            fault();
        }
        FAULT_HIGH | FAULT_FIRST => spin(),
        EXIT => {
            COUNT.fetch_add(1, Relaxed);
            spin();
        }
        MEASURE => mix::echo(),
        HOLD => registers::answer(),
        WAIT => wait(),
        HASH => hash(2),
        _ => serve(),
    }
}

fn wait() {
    let _ = Semaphore::new(0).take(Instant::NEVER);
}

fn fails(_: u64) {
    fault();
}

fn holds_argument(argument: u64, expected: u64) {
    if argument != expected {
        fault();
    }
}

/// What this life is for; waits until the first thread has said it.
fn what() -> u64 {
    loop {
        match WHAT.load(Relaxed) {
            0 => sleep_until(Instant::after(Nanos::new(1_000))),
            what => return what - 1,
        }
    }
}

fn spin() {
    loop {
        core::hint::spin_loop();
    }
}

/// A page fault; its address tells how many there were in this life.
fn fault() {
    let nr = COUNT.fetch_add(1, Relaxed) + 1;
    // SAFETY: none: it stops the task, which is the test.
    unsafe { (nr as usize as *mut u64).write_volatile(0) };
}

/// Gives back what it is sent, one more in each word; writes the sum of what is lent to the second window. A first word of 0 ends it.
fn serve() {
    let Ok(mut received) = receive(0, Instant::NEVER) else {
        exit(1)
    };
    while let Some(call) = received.call {
        defmt::info!("{} of {}", call.message, call.badge);
        if Leased::new(0).info().is_ok() {
            let mut bytes = [0; 64];
            let sum = Leased::new(0).read(0, &mut bytes).map(|()| {
                let sum = bytes.iter().fold(0u64, |sum, it| sum + u64::from(*it));
                Leased::new(1).write(0, &sum.to_le_bytes())
            });
            holds!(sum == Ok(Ok(())));
        }
        if call.message[0] == 0 {
            holds!(reply([0; 6]).is_ok());
            return;
        }
        let answer = call.message.map(|word| word.wrapping_add(1));
        let Ok(next) = reply_and_receive(answer, 0, Instant::NEVER) else {
            exit(2)
        };
        received = next;
    }
}

/// Calls within the task, with memory of one thread's stack that another one reads and writes.
fn talk() {
    let bytes = [3; 64];
    for peer in [HIGH, LOW, HIGH, LOW] {
        let mut sum = [0; 8];
        let leases = [Lease::read(&bytes), Lease::write(&mut sum)];
        holds!(
            peer.call_lending([1, 2, 3, 4, 5, 6], leases, Instant::NEVER) == Ok([2, 3, 4, 5, 6, 7])
        );
        holds!(u64::from_le_bytes(sum) == 192);
        defmt::info!("{}", sum);
    }
    // What is on its stack can be logged, as what is in the others' data.
    takt_user::log!("{bytes:?}");
    returns();
}

/// Threads that have returned are dead, and the task goes on.
fn returns() {
    for peer in [HIGH, LOW] {
        holds!(peer.call([0; 6]) == Ok([0; 6]));
        sleep_until(Instant::after(Nanos::new(100_000)));
        holds!(peer.call([1; 6]) == Err(Error::Dead));
        holds!(peer.notify(1) == Err(Error::Dead));
    }
}

/// Does this and that, until something stops the task.
fn hash(own: u64) {
    // SAFETY: reads a counter.
    let mut state = unsafe { _rdtsc() } ^ own << 60 | 1;
    loop {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let time = Instant::now();
        let peer = Peer::new((state >> 32) as u32 % 2);
        match state % 16 {
            0 => fault(),
            1 if own == 0 => exit(0),
            1..=3 => sleep_until(time + Nanos::new(state % 4096)),
            4 | 5 => {
                let _ = peer.call_until([state; 6], time + Nanos::new(state % 8192));
            }
            6 => {
                let _ = peer.notify(1);
            }
            7..=9 => {
                let _ = receive(1, time + Nanos::new(state % 8192));
                let _ = reply([0; 6]);
            }
            10 => yield_now(),
            11 => takt_user::log!("{}", state),
            12 => defmt::debug!("{}", state),
            13 if own != 0 && state % 64 == 13 => return,
            _ => (0..state % 300).for_each(|_| core::hint::spin_loop()),
        }
    }
}
