//! Tasks that call each other from whichever CPUs they are on, while they die and begin anew: what one is answered is for it alone,
//! and is right. Nothing here depends on how long anything takes.

use core::arch::asm;

use takt_user::abi::{FaultKind, fault};
use takt_user::{
    Error, Instant, Lease, Leased, Message, Nanos, Peer, Received, exit, receive, reply,
    reply_and_receive, sleep_until, yield_now,
};

/// What a message's first word asks for.
mod ask {
    pub(super) const QUIT: u64 = 0;
    /// [`answer`](super::answer).
    pub(super) const ECHO: u64 = 1;
    /// The same after so many nanoseconds as the second word says.
    pub(super) const SLOW: u64 = 2;
    /// The same by the hub.
    pub(super) const VIA: u64 = 3;
    /// A call of the client, which waits for the answer: the error's number.
    pub(super) const CIRCLE: u64 = 4;
    /// Which of the notifications in the second word have come; they are forgotten.
    pub(super) const BITS: u64 = 5;
    /// A fault.
    pub(super) const DIE: u64 = 6;
    /// Of the hub: how often whoever asks has asked that.
    pub(super) const LIVES: u64 = 7;
    /// Of the hub: how many have said so.
    pub(super) const BYE: u64 = 8;
    /// Writes the [`answer_byte`](super::answer_byte) to each byte of the lease 0 to the lease 1, after so many nanoseconds as the
    /// second word says. It dies of it in the middle if the third one is not 0.
    pub(super) const FILL: u64 = 9;
}

/// The badge of the client's handle of the server, and those of what the hub is told of.
const CLIENT: u32 = 7;
/// The server's handles of the client and of the hub; those of others of the server and of the hub.
const BACK: Peer = Peer::new(0);
const SERVER: Peer = Peer::new(0);
const HUB: Peer = Peer::new(1);

/// All notifications that are used.
const BITS: u32 = 0xffff;
/// How often the task `victim` lives.
const LIVES: u64 = 4;

/// What is answered to a message whose sender has this badge.
fn answer(message: Message, badge: u32) -> Message {
    core::array::from_fn(|place| message[place].wrapping_mul(3) + place as u64 + u64::from(badge))
}

fn answer_byte(byte: u8, badge: u32) -> u8 {
    byte.wrapping_mul(3).wrapping_add(badge as u8)
}

/// What a lease has at most: more than is copied in one piece.
const LENT: usize = 640;

fn die() -> ! {
    // SAFETY: none: it stops the task.
    unsafe { asm!("ud2", options(noreturn)) };
}

/// Answers by one call or by two, if there is something to answer; then waits, for a while or for good, as the word says.
fn next(mut said: Option<Message>, word: u64) -> Received {
    let mut deadline = match word % 4 {
        0 => Instant::after(Nanos::new(word % 20_000)),
        _ => Instant::NEVER,
    };
    loop {
        let received = match said.take() {
            Some(said) if word.is_multiple_of(3) => {
                reply(said).and_then(|()| receive(BITS, deadline))
            }
            Some(said) => reply_and_receive(said, BITS, deadline),
            None => receive(BITS, deadline),
        };
        match received {
            Ok(received) => return received,
            Err(Error::TimedOut) => deadline = Instant::NEVER,
            Err(error) => exit(100 + error as u64),
        }
    }
}

/// Supervises, and answers.
pub(crate) fn hub() {
    let (mut said, mut word) = (None, 1);
    let (mut lives, mut nr_byes) = (0, 0);
    loop {
        let Some(call) = next(said, word).call else {
            said = None;
            continue;
        };
        let message = call.message;
        word = message[1];
        if call.is_fault {
            if message[fault::KIND] != FaultKind::InvalidOpcode as u64 {
                exit(2);
            }
            said = Some([fault::RESTART, 0, 0, 0, 0, 0]);
            continue;
        }
        said = Some(match message[0] {
            ask::QUIT => {
                let _ = reply(message);
                return;
            }
            ask::LIVES => {
                lives += 1;
                [lives; 6]
            }
            ask::BYE => {
                nr_byes += 1;
                [nr_byes; 6]
            }
            _ => answer(message, call.badge),
        });
    }
}

/// Answers, and dies of some messages.
pub(crate) fn server() {
    let (mut said, mut word, mut bits) = (None, 1, 0);
    loop {
        let received = next(said, word);
        bits |= received.bits;
        let Some(call) = received.call else {
            said = None;
            continue;
        };
        let message = call.message;
        word = message[1];
        said = Some(match message[0] {
            ask::QUIT => {
                let _ = reply(message);
                return;
            }
            ask::SLOW => {
                sleep_until(Instant::after(Nanos::new(word)));
                answer(message, call.badge)
            }
            ask::VIA => match HUB.call([ask::ECHO, word, 0, 0, 0, word]) {
                Ok(message) => message,
                Err(error) => exit(200 + error as u64),
            },
            ask::CIRCLE => {
                let result = BACK.renew().and_then(|()| BACK.call([0; 6]));
                [result.err().map_or(0, |error| error as u64); 6]
            }
            ask::BITS => {
                let asked = word as u32;
                let come = bits & asked;
                bits &= !asked;
                [come.into(); 6]
            }
            ask::DIE => die(),
            ask::FILL => {
                sleep_until(Instant::after(Nanos::new(word % 4_000)));
                match fill(call.badge, message[2] != 0) {
                    Ok(()) | Err(Error::Revoked) => answer(message, call.badge),
                    Err(error) => exit(600 + error as u64),
                }
            }
            _ => answer(message, call.badge),
        });
    }
}

/// As [`ask::FILL`] says.
#[inline(never)]
fn fill(badge: u32, dies: bool) -> Result<(), Error> {
    let mut own = [0; LENT];
    let size = Leased::new(0).info()?.size;
    let own = &mut own[..size];
    Leased::new(0).read(0, own)?;
    for byte in &mut *own {
        *byte = answer_byte(*byte, badge);
    }
    let middle = size / 2;
    Leased::new(1).write(middle, &own[middle..])?;
    if dies {
        die();
    }
    Leased::new(1).write(0, &own[..middle])
}

/// Ends the task with the line's number unless it holds.
macro_rules! holds {
    ($condition:expr) => {
        if !$condition {
            exit(line!().into());
        }
    };
}

/// What has become of a message to the server, which may have died of another one's.
fn ask(message: Message) -> Option<Message> {
    reached(SERVER.call(message))
}

fn reached(result: Result<Message, Error>) -> Option<Message> {
    match result {
        Ok(answer) => Some(answer),
        Err(Error::Dead | Error::Stale) => {
            renew();
            None
        }
        Err(error) => exit(300 + error as u64),
    }
}

/// Lends the server memory to read and to write to; what was lent stays as it is when the call has ended, however that was.
#[inline(never)]
fn lend(word: u64, badge: u32) {
    let size = (word >> 20) as usize % (LENT + 1);
    let dies = u64::from((word >> 10).is_multiple_of(16));
    let from: [u8; LENT] = core::array::from_fn(|at| (word as usize + at) as u8);
    let mut to = [0xa5; LENT];
    let sent = [ask::FILL, word, dies, 0, 0, word];
    let leases = [Lease::read(&from[..size]), Lease::write(&mut to[..size])];
    let deadline = match word % 2 {
        0 => Instant::NEVER,
        _ => Instant::after(Nanos::new(word % 9_001)),
    };
    let result = SERVER.call_lending(sent, leases, deadline);
    let before = to;
    if result == Err(Error::TimedOut) {
        holds!(Instant::now() >= deadline);
        sleep_until(Instant::after(Nanos::new(2_000)));
    } else if let Some(got) = reached(result) {
        holds!(got == answer(sent, badge));
        let expected = from[..size].iter().map(|it| answer_byte(*it, badge));
        holds!(to[..size].iter().copied().eq(expected));
    }
    holds!(core::hint::black_box(&to) == &before);
    holds!(to[size..].iter().all(|it| *it == 0xa5));
}

/// Waits until the server lives.
fn renew() {
    loop {
        match SERVER.renew() {
            Ok(()) => return,
            Err(Error::Dead) => sleep_until(Instant::after(Nanos::new(10_000))),
            Err(error) => exit(400 + error as u64),
        }
    }
}

/// Asks so many times for something in the sequence of a seed, which the argument has behind the number. One that does not begin anew
/// is the client.
pub(crate) fn client(what: u64, is_client: bool) {
    let badge = if is_client { CLIENT } else { 5 };
    let (own, hubs) = match is_client {
        true => (0x00ff, 8),
        false => (0xff00, 6),
    };
    let (nr, mut state) = (what & 0xff_ffff, (what >> 24) * 2 + 1);
    let life = match is_client {
        true => LIVES,
        false => HUB.call([ask::LIVES; 6]).map_or(LIVES, |words| words[0]),
    };
    state = (state ^ life << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 20
    };
    let nr = if is_client { nr } else { nr / LIVES };
    for _ in 0..nr {
        let (what, word) = (random() % 36, random());
        let message = |what| [what, word, 2, 3, u64::MAX, !word];
        match what {
            0..8 => {
                let sent = message(ask::ECHO);
                holds!(ask(sent).is_none_or(|got| got == answer(sent, badge)));
            }
            8..14 => {
                let sent = message(ask::ECHO);
                holds!(HUB.call(sent) == Ok(answer(sent, hubs)));
            }
            14..17 => {
                let sent = [ask::SLOW, word % 30_000, 0, 0, 0, word];
                let deadline = Instant::after(Nanos::new(word / 7 % 40_000));
                match SERVER.call_until(sent, deadline) {
                    Err(Error::TimedOut) => holds!(Instant::now() >= deadline),
                    other => holds!(reached(other).is_none_or(|got| got == answer(sent, badge))),
                }
            }
            17 => {
                let sent = message(ask::ECHO);
                match SERVER.call_until(sent, Instant::ZERO) {
                    Err(Error::TimedOut) => {}
                    other => holds!(reached(other).is_none_or(|got| got == answer(sent, badge))),
                }
            }
            18..21 => {
                let expected = answer([ask::ECHO, word, 0, 0, 0, word], 4);
                holds!(ask(message(ask::VIA)).is_none_or(|got| got == expected));
            }
            21..23 if is_client => {
                let got = ask(message(ask::CIRCLE));
                holds!(got.is_none_or(|got| got[0] == Error::Deadlock as u64));
            }
            23..27 => {
                // Those of before are forgotten.
                let bit = 1 << (word % 8 + if is_client { 0 } else { 8 });
                let is_told = match SERVER.notify(bit) {
                    Ok(()) => true,
                    Err(Error::Dead | Error::Stale) => {
                        renew();
                        false
                    }
                    Err(error) => exit(500 + error as u64),
                };
                if let Some(got) = ask([ask::BITS, own, 0, 0, 0, 0]) {
                    holds!(!is_told || got[0] & u64::from(bit) != 0);
                    holds!(got[0] & !own == 0);
                }
            }
            27 if word % 8 == 0 => holds!(ask(message(ask::DIE)).is_none()),
            28 => sleep_until(Instant::after(Nanos::new(word % 10_000))),
            29 => yield_now(),
            32.. => lend(word, badge),
            30 if !is_client && life < LIVES && word % 8 == 0 => die(),
            _ => takt_user::null(),
        }
    }
    if life < LIVES {
        die();
    }
    // Whoever is the last ends the others.
    if HUB.call([ask::BYE; 6]).map(|words| words[0]) == Ok(2) {
        while ask([ask::QUIT; 6]).is_none() {}
        holds!(HUB.call([ask::QUIT; 6]).is_ok());
    }
}

/// Calls a server, which asks the hub, while others compute where these two are.
pub(crate) fn lender(nr: u64) {
    for word in 0..nr {
        let expected = answer([ask::ECHO, word, 0, 0, 0, word], 4);
        holds!(ask([ask::VIA, word, 0, 0, 0, 0]) == Some(expected));
    }
    holds!(ask([ask::QUIT; 6]).is_some());
    holds!(HUB.call([ask::QUIT; 6]).is_ok());
}
