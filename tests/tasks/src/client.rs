//! What calls.

use core::arch::asm;

use takt_user::abi::NOTIFICATIONS;
use takt_user::{
    Error, Instant, Message, Nanos, Peer, Semaphore, exit, receive, reply, sleep_until, yield_now,
};

use crate::mix;

const SERVER: Peer = Peer::new(0);
const KEEPER: Peer = Peer::new(1);
const VICTIM: Peer = Peer::new(2);
const BELL: Peer = Peer::new(3);
const TEAM_LOW: Peer = Peer::new(5);
const WATCHED: Peer = Peer::new(6);

const RUNG: Semaphore = Semaphore::new(0);
const SLOTS: Semaphore = Semaphore::new(1);

/// What the server is told.
pub(crate) const RING: u64 = 1 << 40;
pub(crate) const GIVE_WITHOUT_RIGHT: u64 = RING + 1;

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
    match what & 0xff {
        0 => calls(),
        1 => rights(),
        2 => death(),
        3 => times(),
        4 => {
            holds!(SERVER.call([6; 6]).is_ok());
            let [null, call] = mix::cost_of_calls();
            holds!(SERVER.call([0; 6]) == Ok([0; 6]));
            exit(null | call << 32);
        }
        5 => wild(),
        40 => exit(until_the_team_lives(Nanos::from_millis(what >> 8))),
        41 => exit(u64::from(
            TEAM_LOW.renew() != Ok(()) || TEAM_LOW.call([5; 6]) != Err(Error::Dead),
        )),
        7 => {
            let costs = KEEPER.call([0; 6]).unwrap_or([0; 6]);
            exit(costs[0] | costs[1] << 16 | costs[2] << 32);
        }
        12 => {
            let told = KEEPER.call([0; 6]).unwrap_or([0; 6]);
            holds!(KEEPER.call([1; 6]).is_ok());
            exit(told[..4].iter().fold(0, |sum, word| mix::add(sum, *word)));
        }
        11 => exit(mix::cost_of_notification(KEEPER)),
        13 => exit(mix::cost_of_deadline()),
        // Lines without end, and one that comes through all the same.
        // A thread of another task, which dies with it.
        17 => {
            holds!(TEAM_LOW.call([4; 6]) == Ok([5; 6]));
            sleep_until(Instant::after(Nanos::from_millis(2)));
            holds!(TEAM_LOW.call([4; 6]) == Err(Error::Dead));
        }
        18 => on_time(what >> 8),
        19 => late(SERVER, 450, what >> 8),
        20 => holds!(is_answered(SERVER.call(ASKED), 7)),
        21 => late(WATCHED, 440, what >> 8),
        22 => semaphores(),
        // It is stopped before.
        23 => holds!(RUNG.take(Instant::NEVER).is_ok()),
        24 => {
            holds!(SERVER.call([RING; 6]).is_ok());
            holds!(RUNG.take(Instant::after(Nanos::from_millis(1))) == Ok(()));
            holds!(SERVER.call([0; 6]).is_ok());
        }
        25 => sleeps_late(
            what >> 9 & 0x1f_ffff,
            what & 1 << 8 != 0,
            what & 1 << 30 != 0,
        ),
        14 => (0..1000).for_each(|line| takt_user::log!("line {line}")),
        8 => time_outs(),
        9 => mix::run(what >> 8),
        10 => {
            holds!(SERVER.call([0; 6]).is_ok());
            holds!(KEEPER.call([0; 6]).is_ok());
        }
        6 => holds!(KEEPER.call([1; 6]).is_ok()),
        // It may be about to begin anew.
        16 => {
            while matches!(SERVER.call([0; 6]), Err(Error::Dead | Error::Stale)) {
                sleep_until(Instant::after(Nanos::new(100_000)));
                let _ = SERVER.renew();
            }
        }
        // Tells a driver something; the answer's first word is the result, or its second one.
        15 => {
            let word = what >> 8 & 0xff;
            let answer = KEEPER
                .call([word, what >> 16, 0, 0, 0, 0])
                .unwrap_or([u64::MAX; 6]);
            exit(if word == 2 { answer[1] } else { answer[0] });
        }
        _ => exit(96),
    }
}

const ASKED: Message = [9, 10, 11, 12, 13, 14];

/// Whether it is what a server answers whom it knows by this badge.
fn is_answered(answer: Result<Message, Error>, badge: u64) -> bool {
    answer
        == Ok(core::array::from_fn(|place| {
            ASKED[place] + place as u64 + badge
        }))
}

/// Calls the server at each multiple of 200 µs, so many times.
fn on_time(rounds: u64) {
    const PERIOD: u64 = 200_000;
    let now = (Instant::now() - Instant::ZERO).get();
    let first = now.next_multiple_of(PERIOD);
    for round in 0..rounds {
        sleep_until(Instant::ZERO + Nanos::new(first + round * PERIOD));
        holds!(is_answered(SERVER.call(ASKED), 7));
    }
    holds!(SERVER.call([0; 6]).is_ok());
}

/// Goes on so many instructions after this time.
pub(crate) fn pass(micros: u64, instructions: u64) {
    sleep_until(Instant::after(Nanos::from_micros(micros)));
    // SAFETY: counts a register down.
    unsafe {
        asm!("test {n}, 1", "jnz 3f", "nop", "nop", "jmp 2f", "3:", "nop", "nop", "2: sub {n}, 2", "jg 2b", n = inout(reg) instructions + 2 => _);
    }
}

/// Calls a task so many instructions after this time of its life, which ends it or that task about then: says whether it had no answer.
fn late(peer: Peer, micros: u64, instructions: u64) {
    pass(micros, instructions);
    let answer = peer.call(ASKED);
    holds!(answer == Err(Error::Dead) || is_answered(answer, 2));
    exit(answer.is_err().into());
}

/// Begins to sleep, or to take a semaphore that has no permit, so many instructions after some time of its life, about when its watchdog
/// bites, or ends with 5 instead. The next life waits for a message, which nobody sends: it ends with 77 if it does not wait until its watchdog bites. The first one begins
/// at a multiple of [`TURN`], by which they know which they are.
fn sleeps_late(instructions: u64, ends: bool, takes: bool) {
    let since = Instant::now().nanos() % TURN;
    if since > 300_000 {
        let _ = receive(1, Instant::NEVER);
        exit(77);
    }
    let due = Instant::after(Nanos::new(1_005_000 - since));
    pass(440, instructions);
    if ends {
        exit(5);
    }
    if takes {
        let _ = RUNG.take(due);
    } else {
        sleep_until(due);
    }
    exit(78);
}

/// So many nanoseconds.
const TURN: u64 = 10_000_000;

fn calls() {
    // Where `fs` begins is each task's own, and the same for ever.
    let (first, own) = (crate::fs_base(), 0x5555_0000);
    // SAFETY: nothing is logged by defmt meanwhile, which is all that is found by it.
    unsafe { asm!("wrfsbase {}", in(reg) own, options(nomem, nostack)) };
    holds!(
        SERVER
            .call([3; 6])
            .is_ok_and(|words| ![first, own].contains(&words[1]))
    );
    holds!(crate::fs_base() == first);
    for round in 10..200 {
        let sent = [round, round + 1, 3, 4, 5, u64::MAX - 20];
        let got = SERVER.call(sent);
        let expected = core::array::from_fn(|place| sent[place] + place as u64 + 7);
        holds!(got == Ok(expected));
    }
    holds!(BELL.notify(0b101).is_ok());
    holds!(SERVER.notify(0b1000).is_ok());
    holds!(SERVER.call([2; 6]).map(|words| words[1]) == Ok(0b1101));
    takt_user::log!("it has been called {} times", 190);
    holds!(SERVER.call([0; 6]) == Ok([0; 6]));
    holds!(SERVER.call([0; 6]) == Err(Error::Dead));
}

fn rights() {
    holds!(BELL.call([9; 6]) == Err(Error::NoRight));
    holds!(KEEPER.notify(1) == Err(Error::NoRight));
    holds!(Peer::new(7).call([9; 6]) == Err(Error::NoHandle));
    holds!(Peer::new(u32::MAX).call([9; 6]) == Err(Error::NoHandle));
    holds!(SERVER.notify(NOTIFICATIONS + 1) == Err(Error::InvalidArgument));
    holds!(reply([0; 6]) == Err(Error::NothingToReply));
    holds!(VICTIM.call([0; 6]) == Err(Error::Dead));
    holds!(SERVER.call([0; 6]) == Ok([0; 6]));
}

/// The server dies of a message, and is started again by its supervisor.
fn death() {
    holds!(SERVER.call([1; 6]) == Err(Error::Dead));
    // It is less important than this task, and has yet to tell its supervisor.
    sleep_until(Instant::after(Nanos::new(1_000_000)));
    let told = KEEPER.call([0; 6]);
    holds!(told.map(|words| (words[0], words[2])) == Ok((14, 0x100_0000)));
    let life = told.map_or(0, |words| words[5]);
    holds!(SERVER.call([9; 6]) == Err(Error::Stale));
    holds!(SERVER.renew() == Ok(()));
    holds!(SERVER.call([9; 6]).is_ok());
    holds!(SERVER.call([1; 6]) == Err(Error::Dead));
    sleep_until(Instant::after(Nanos::new(1_000_000)));
    holds!(SERVER.renew() == Err(Error::Dead));
    holds!(KEEPER.call([1; 6]).map(|words| words[5]) == Ok(life + 1));
}

/// Permits, rights, and times.
fn semaphores() {
    // Others may have given some.
    while SLOTS.take(Instant::ZERO).is_ok() {}
    while RUNG.take(Instant::ZERO).is_ok() {}
    holds!(SLOTS.give().is_ok() && SLOTS.give().is_ok());
    holds!(SLOTS.give() == Err(Error::Overflow));
    holds!(SLOTS.take(Instant::NEVER).is_ok() && SLOTS.take(Instant::ZERO).is_ok());
    let late = Err(Error::TimedOut);
    holds!(SLOTS.take(Instant::ZERO) == late);
    let begun = Instant::now();
    holds!(SLOTS.take(begun + Nanos::from_micros(500)) == late);
    holds!(
        (begun + Nanos::from_micros(500)..begun + Nanos::from_micros(520))
            .contains(&Instant::now())
    );
    holds!(RUNG.give() == Err(Error::NoRight));
    let no_right = Error::NoRight as u64;
    holds!(SERVER.call([GIVE_WITHOUT_RIGHT; 6]).map(|words| words[1]) == Ok(no_right));
    for none in [2, 16, u32::MAX] {
        holds!(Semaphore::new(none).give() == Err(Error::NoHandle));
        holds!(Semaphore::new(none).take(Instant::NEVER) == Err(Error::NoHandle));
    }
    // It is less important: this one waits by then.
    for deadline in [Instant::NEVER, Instant::after(Nanos::from_millis(1))] {
        holds!(SERVER.call([RING; 6]).is_ok());
        holds!(RUNG.take(Instant::ZERO) == late);
        holds!(RUNG.take(deadline) == Ok(()));
    }
    holds!(SERVER.call([0; 6]).is_ok());
}

fn times() {
    let begun = Instant::now();
    sleep_until(begun + Nanos::from_millis(1));
    let woken = Instant::now();
    holds!(woken >= begun + Nanos::from_millis(1));
    holds!(woken < begun + Nanos::from_micros(1_020));
    yield_now();
    holds!(matches!(
        receive(1, Instant::after(Nanos::new(500_000))),
        Err(Error::TimedOut)
    ));
    holds!(Instant::now() >= woken + Nanos::from_micros(500));
    holds!(matches!(receive(0, Instant::ZERO), Err(Error::TimedOut)));
    holds!(matches!(
        receive(1 << 31, Instant::ZERO),
        Err(Error::InvalidArgument)
    ));
}

/// Calls that end by their time, and one that would never end.
fn time_outs() {
    let late = Err(Error::TimedOut);
    holds!(SERVER.call_until([9; 6], Instant::NEVER).is_ok());
    let begun = Instant::now();
    holds!(SERVER.call_until([4; 6], begun + Nanos::from_micros(500)) == late);
    holds!(
        (begun + Nanos::from_micros(500)..begun + Nanos::from_micros(520))
            .contains(&Instant::now())
    );
    // It has yet to come to the one after that.
    holds!(SERVER.call_until([9; 6], Instant::after(Nanos::new(100_000))) == late);
    holds!(SERVER.call_until([9; 6], Instant::ZERO) == late);
    // Not the one to the first call, which comes while this one waits.
    let answer = core::array::from_fn(|place| 9 + 7 + place as u64);
    holds!(SERVER.call([9; 6]) == Ok(answer));
    holds!(Instant::now() >= begun + Nanos::from_millis(2));
    let deadlock = Error::Deadlock as u64;
    holds!(SERVER.call([5; 6]).map(|words| words[1]) == Ok(deadlock));
    holds!(SERVER.call([0; 6]).is_ok());
}

/// Calls while another task does harm beside it.
fn wild() {
    for round in 10..2000 {
        if round == 1000 {
            // The other one is less important.
            sleep_until(Instant::after(Nanos::new(100_000)));
        }
        holds!(SERVER.call([round; 6]).map(|words| words[5]) == Ok(round + 5 + 7));
    }
    holds!(SERVER.call([0; 6]).is_ok());
}

/// Has a thread of the team fault, and is busy for that long; says how many nanoseconds later the team lived anew, or all of them.
fn until_the_team_lives(busy: Nanos) -> u64 {
    if TEAM_LOW.call([5; 6]) != Err(Error::Dead) {
        exit(u64::MAX)
    }
    let begun = Instant::now();
    let mut waited = busy;
    while Instant::now() < begun + busy {
        if waited == busy && TEAM_LOW.renew().is_ok() {
            waited = Instant::now() - begun;
        }
    }
    waited.get()
}
