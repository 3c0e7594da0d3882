//! What uses up budgets, and who is told of that.

use core::arch::x86_64::_rdtsc;

use takt_user::abi::{FaultKind, fault};
use takt_user::{
    Error, Instant, Message, Nanos, Peer, exit, feed, receive, reply, reply_and_receive,
    sleep_until,
};

const SERVER: Peer = Peer::new(0);

/// Asks the server to work for so many nanoseconds.
pub(crate) const WORK: u64 = u64::MAX;

/// Asks it to have another one do so.
pub(crate) const HAVE_WORK_DONE: u64 = u64::MAX - 1;

/// Asks it to ask another one to work when a call of its own has timed out.
pub(crate) const PASS_ON: u64 = u64::MAX - 2;

/// The other one is asked by that; for no time at all it ends.
pub(crate) const WORK_LATER: u64 = u64::MAX - 3;

/// Those by which the server knows who asks it.
const BADGES: [u64; 2] = [2, 7];

/// A gap is where the task did not run for so many cycles.
const GAP: u64 = 20_000;

fn now() -> u64 {
    // SAFETY: reads a counter.
    unsafe { _rdtsc() }
}

fn faults() {
    // SAFETY: none: it stops the task, which is the test.
    unsafe { core::arch::asm!("ud2") };
}

/// Works until then.
pub(crate) fn work_until(end: Instant) {
    while Instant::now() < end {}
}

/// Sleeps, and works then until so many nanoseconds before its budget's end.
pub(crate) fn work_up_to_the_end(before: u64) {
    sleep_until(Instant::after(Nanos::from_millis(2)));
    work_until(Instant::after(Nanos::new(200_000 - before)));
}

pub(crate) fn run(what: u64) {
    match what & 0xff {
        0 => exit(stretches(what >> 8)),
        1 => exit(spent(what >> 8)),
        2 => loop {
            core::hint::spin_loop();
        },
        3 => exit(ping_pong(what >> 8)),
        5 => exit(fed(what >> 8)),
        6 => starve(what >> 8),
        7 => exit(asks(what >> 8, 1_000_000, [WORK, 3_000_000, 0, 0, 0, 0])),
        8 => exit(asks(what >> 8, 0, [4; 6])),
        12 => exit(asks(what >> 8, 0, [HAVE_WORK_DONE, 3_000_000, 0, 0, 0, 0])),
        16 => {
            work_up_to_the_end(what >> 8);
            exit(match SERVER.call([WORK, 20_000_000, 0, 0, 0, 0]) {
                Ok(_) => 1,
                Err(Error::BudgetSpent) => 2,
                _ => 3,
            });
        }
        17 => {
            work_up_to_the_end(what >> 8);
            let _ = receive(1, Instant::after(Nanos::from_millis(500)));
            exit(4);
        }
        // The server sleeps. Whatever became of that:
        18 => {
            work_up_to_the_end(what >> 8);
            if SERVER.call([4; 6]) == Err(Error::BudgetSpent) {
                work_until(Instant::after(Nanos::from_millis(10)));
            }
            exit(1);
        }
        19 => {
            let end = Instant::after(Nanos::from_millis(what >> 8));
            while Instant::now() < end {
                let _ = feed();
            }
        }
        20 => {
            work_up_to_the_end(5_000 + (what >> 8));
            loop {
                takt_user::yield_now();
            }
        }
        // Serves one, has another one work for so many microseconds once it has replied, and ends that.
        21 => {
            if receive(0, Instant::NEVER).is_err() || reply([0; 6]).is_err() {
                exit(1);
            }
            let other = Peer::new(1);
            let work = [WORK, (what >> 8) * 1_000, 0, 0, 0, 0];
            let worked = other.renew().and_then(|()| other.call(work));
            // That ends it.
            let ended = other.call([0; 6]);
            exit(u64::from(worked.and(ended).is_err()));
        }
        // Asks the server once, when it has slept.
        23 => {
            sleep_until(Instant::after(Nanos::from_millis(2)));
            exit(u64::from(SERVER.call([0; 6]).is_err()));
        }
        13 => sleep_until(Instant::after(Nanos::from_millis(60))),
        15 => {
            let ends = [[PASS_ON, 0, 0, 0, 0, 0], [0; 6]].map(|it| SERVER.call(it).is_ok());
            exit(u64::from(ends != [true; 2]));
        }
        14 => exit(asks(what >> 8, 0, [PASS_ON, 3_000_000, 0, 0, 0, 0])),
        9 => exit(takes_back(what >> 8)),
        4 => exit(hostile(what >> 8 & 0xff, what >> 16)),
        // Each life is over as soon as it begins, up to that millisecond; not all equally soon, or each period's end would find a life at the
        // same instruction.
        11 if Instant::now() < Instant::from_nanos((what >> 8) * 1_000_000) => {
            for _ in 0..now() / 64 % 61 {
                core::hint::spin_loop();
            }
            faults();
        }
        11 => exit(0),
        _ => exit(95),
    }
}

/// Runs on and on, and says how long the shortest and the longest of so many stretches were between two gaps, in cycles.
fn stretches(count: u64) -> u64 {
    let (mut shortest, mut longest) = (u64::MAX, 0);
    let mut before = now();
    let mut begun = before;
    // The first one was not whole.
    let mut nr = 0;
    while nr <= count {
        let at = now();
        if at - before > GAP {
            if nr > 0 {
                shortest = shortest.min(before - begun);
                longest = longest.max(before - begun);
            }
            nr += 1;
            begun = at;
        }
        before = at;
    }
    shortest << 32 | longest
}

/// Has the server work for longer than its budget is, as often as this: each time the call ends without a reply, and the server is
/// there again for the next one.
fn spent(rounds: u64) -> u64 {
    for round in 0..rounds {
        let begun = Instant::now();
        if SERVER.call([WORK, 500_000, 0, 0, 0, 0]) != Err(Error::BudgetSpent) {
            return 1 + 4 * round;
        }
        if Instant::now() - begun < Nanos::from_micros(150) {
            return 2 + 4 * round;
        }
        // The server has done by then, whenever the period began. Not the reply to the message before.
        sleep_until(begun + Nanos::from_millis(1));
        let answer = SERVER.call([10 + round, 0, 0, 0, 0, 0]);
        if answer.map(|words| words[0]) != Ok(10 + round + 2) {
            return 3 + 4 * round;
        }
    }
    0
}

/// Calls the server as often as it can until its time is up; says how often it was told that its budget was spent.
fn ping_pong(millis: u64) -> u64 {
    let end = Instant::after(Nanos::from_millis(millis));
    let mut nr_spent = 0;
    while Instant::now() < end {
        match SERVER.call([10, 0, 0, 0, 0, 0]) {
            Ok(answer) if answer[0] == 12 => {}
            Err(Error::BudgetSpent) => {
                nr_spent += 1;
                // Each period's calls begin elsewhere, so that the next one ends at another instruction.
                for _ in 0..nr_spent * 7 {
                    core::hint::spin_loop();
                }
            }
            _ => exit(94),
        }
    }
    nr_spent
}

/// Has the server do whatever it can do while it is called, also die, until its time is up. The budget so ends anywhere in it. Says
/// how often it was told that.
fn hostile(millis: u64, seed: u64) -> u64 {
    let end = Instant::after(Nanos::from_millis(millis));
    let (mut random, mut nr_spent) = (seed | 1, 0);
    while Instant::now() < end {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let word = match random >> 60 {
            0 => 1,
            1 => 4,
            2..8 => 10,
            _ => WORK,
        };
        let late = Instant::after(Nanos::new(random % 300_000));
        let message = [word, random % 50_000, 0, 0, 0, 0];
        let answer = match random >> 56 & 3 {
            0 => SERVER.call_until(message, late),
            _ => SERVER.call(message),
        };
        match answer {
            // Nobody else's reply.
            Ok(answer)
                if word != 1
                    && (answer[1] == message[1]
                        || word == 10 && BADGES.contains(&(answer[1] - message[1] - 1))) => {}
            Err(Error::BudgetSpent) => nr_spent += 1,
            Err(Error::TimedOut) => {}
            Err(Error::Dead | Error::Stale) => {
                let _ = SERVER.renew();
            }
            _ => exit(93),
        }
    }
    nr_spent
}

/// Asks the server for this so often, so many nanoseconds behind each hundredth of a second; says how often its budget was used up by
/// then.
fn asks(nr: u64, behind: u64, message: Message) -> u64 {
    const GRID: Nanos = Nanos::from_millis(10);
    let begun = Instant::from_nanos(Instant::now().nanos().next_multiple_of(GRID.get()) + behind);
    let mut nr_spent = 0;
    for round in 0..nr {
        sleep_until(begun + GRID * round);
        match SERVER.call(message) {
            Ok(answer) if answer[1] == message[1] => {}
            Err(Error::BudgetSpent) => nr_spent += 1,
            _ => exit(90),
        }
    }
    nr_spent
}

/// Has the server ask another one that works for long, so many times, and waits for a part of its budget only: then no one uses the rest,
/// and the task's own waits are as long as they are to be.
fn takes_back(nr: u64) -> u64 {
    for _ in 0..nr {
        let begun = Instant::now();
        let message = [HAVE_WORK_DONE, 3_000_000, 0, 0, 0, 0];
        if SERVER.call_until(message, begun + Nanos::from_micros(100)) != Err(Error::TimedOut) {
            return 1;
        }
        let until = begun + Nanos::from_millis(5);
        if !matches!(
            receive(1, begun + Nanos::from_millis(2)),
            Err(Error::TimedOut)
        ) {
            return 2;
        }
        sleep_until(until);
        if Instant::now() < until {
            return 3;
        }
    }
    0
}

/// Feeds its watchdog for so many milliseconds, in time; says how often.
fn fed(millis: u64) -> u64 {
    let end = Instant::after(Nanos::from_millis(millis));
    let mut nr = 0;
    while Instant::now() < end {
        sleep_until(Instant::after(Nanos::new(400_000)));
        if feed().is_err() {
            exit(92);
        }
        nr += 1;
    }
    nr
}

/// Feeds its watchdog no more, and does what it is told to do instead.
fn starve(how: u64) {
    match how {
        0 => loop {
            core::hint::spin_loop();
        },
        1 => drop(receive(1, Instant::NEVER)),
        2 => drop(receive(1, Instant::after(Nanos::new(10_000_000)))),
        3 => sleep_until(Instant::after(Nanos::new(10_000_000))),
        4 => drop(SERVER.call([WORK, 5_000_000, 0, 0, 0, 0])),
        5 => loop {
            takt_user::null();
        },
        6 => loop {
            takt_user::yield_now();
        },
        _ => loop {
            // Nobody answers it.
            let _ = SERVER.call([10; 6]);
        },
    }
    exit(91)
}

/// Supervises: counts the notifications that it receives, up to the first call; a fault stops its task, or has it begin anew if that
/// is the one whose number it is told. It ends with the count and, above it, the kind of the last fault.
/// Before it answers a fault it works for as many microseconds as stand above the number.
pub(crate) fn watch(what: u64) {
    let (restarts, works) = (what & 0xff, Nanos::from_micros(what >> 8));
    let (mut nr, mut kind) = (0, 0);
    let mut received = receive(!0 >> 2, Instant::NEVER);
    loop {
        let Ok(came) = received else { exit(1 << 32) };
        nr += u64::from(came.bits != 0);
        received = match came.call {
            None => receive(!0 >> 2, Instant::NEVER),
            Some(call) if call.is_fault => {
                kind = call.message[fault::KIND];
                if works > Nanos::ZERO {
                    work_until(Instant::after(works));
                }
                let mut answer = [0; 6];
                answer[0] = match u64::from(call.badge) == restarts {
                    true => {
                        nr += u64::from(kind == FaultKind::BudgetOverrun as u64);
                        fault::RESTART
                    }
                    false => fault::STOP,
                };
                reply_and_receive(answer, !0 >> 2, Instant::NEVER)
            }
            Some(_) => {
                let _ = reply([0; 6]);
                exit(kind << 32 | nr);
            }
        };
    }
}
