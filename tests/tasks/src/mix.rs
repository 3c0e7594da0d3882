//! Random sequences of calls, of which the outcome does not depend on how long anything takes; and a call for whoever measures.

use core::arch::asm;

use takt_user::{Error, Instant, Nanos, Peer, exit, receive, sleep_until, yield_now};

const SERVER: Peer = Peer::new(0);
const KEEPER: Peer = Peer::new(1);

/// Between two times at which something happens: longer than anything takes.
const STEP: Nanos = Nanos::from_millis(4);

/// Adds a number to what has happened so far.
pub(crate) fn add(sum: u64, number: u64) -> u64 {
    (sum ^ number).wrapping_mul(0x100_0000_01b3).rotate_left(17)
}

/// Calls servers in a sequence that the seed says, and ends with a number that says all that has happened. Two of them begin
/// within one millisecond, and act at different times.
pub(crate) fn run(seed: u64) {
    let length = STEP.get();
    let begun = (Instant::now().nanos() / length + 1) * length + seed % 2 * (length / 2);
    let mut step = 0;
    let mut next = || {
        step += 1;
        sleep_until(Instant::from_nanos(begun) + STEP * step);
    };
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % below
    };
    // Each client has another handle for that.
    let bell = Peer::new(if seed.is_multiple_of(2) { 4 } else { 1 });
    next();
    let mut sum = seed;
    for _ in 0..400 {
        let what = random(14);
        let word = 10 + random(1000);
        let words = |first| [first, word, 3, 4, 5, word];
        let result = match what {
            0..4 => SERVER.call(words(word)),
            4 => KEEPER.call(words(word)),
            // One that calls another one, and what has come in which order.
            5 | 6 => SERVER.call(words(7)),
            7 => SERVER.call(words(8)),
            8 => SERVER.notify(1 << random(8)).map(|()| [0; 6]),
            9 => SERVER.call(words(2)),
            10 => SERVER.call_until(words(word), Instant::NEVER),
            11 => bell.notify(1 << random(8)).map(|()| [0; 6]),
            12 => KEEPER.call(words(2)),
            _ => {
                match random(3) {
                    0 => next(),
                    1 => yield_now(),
                    _ => takt_user::null(),
                }
                Err(Error::TimedOut)
            }
        };
        sum = match result {
            Ok(words) => words.into_iter().fold(sum, add),
            Err(error) => add(sum, error as u64),
        };
    }
    exit(sum);
}

/// Replies with what it is sent, in as few instructions as there can be, until the first word is 0.
pub(crate) fn echo() {
    // SAFETY: the calls change no memory, and the registers that they do are said here.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "mov esi, 0",
            "mov rdx, -1",
            "syscall",
            "2:",
            "mov eax, 7",
            "mov esi, 0",
            "mov rdx, -1",
            "syscall",
            "test rbx, rbx",
            "jnz 2b",
            "mov eax, 6",
            "syscall",
            "pop rbp",
            "pop rbx",
            inout("rax") 5u64 => _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r9") _, out("r10") _,
            out("r11") _, out("r12") _, out("r13") _, out("r14") _, out("r15") _,
        );
    }
}

/// How many instructions the kernel takes for a call, by the lowest of some measurements; `own` are the tasks' own.
macro_rules! cost {
    ($own:literal, $($call:literal),+) => {{
        let mut least = u64::MAX;
        for _ in 0..8 {
            let took: u32;
            // SAFETY: as in `echo`.
            unsafe {
                asm!(
                    "push rbx",
                    "push rbp",
                    "mov ebx, 1",
                    "rdtsc",
                    "mov r12d, eax",
                    $($call,)+
                    "syscall",
                    "rdtsc",
                    "sub eax, r12d",
                    "pop rbp",
                    "pop rbx",
                    out("eax") took, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r9") _,
                    out("r10") _, out("r11") _, out("r12") _, out("r13") _, out("r14") _, out("r15") _,
                );
            }
            least = least.min(took.into());
        }
        least - $own
    }};
}

/// How many instructions the kernel takes for a call that does nothing, and for one of an [`echo`] and its reply.
pub(crate) fn cost_of_calls() -> [u64; 2] {
    // From the first reading to the second one, with that.
    let null = cost!(4, "mov eax, 0");
    let call = cost!(11, "mov eax, 4", "mov esi, 0");
    [null, call]
}

/// Waits for a message, or for these notifications; gives the time of the first instruction behind that, and the message's third
/// word.
fn received(notifications: u64) -> [u64; 2] {
    let (at, word): (u64, u64);
    // SAFETY: as in `echo`.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "mov rdx, -1",
            "syscall",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "pop rbp",
            "pop rbx",
            inout("rax") 5u64 => at, inout("rsi") notifications => _, out("rdx") _, out("rcx") _, out("rdi") _, out("r8") _,
            out("r9") _, out("r10") _, out("r11") _, out("r12") word, out("r13") _, out("r14") _, out("r15") _,
        );
    }
    [at, word]
}

/// Replies with this first word; gives the times before that and behind it.
fn replied(first: u64) -> [u64; 2] {
    let (before, behind): (u64, u64);
    // SAFETY: as in `echo`.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "mov rbx, r8",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "mov r15, rax",
            "mov eax, 6",
            "syscall",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "pop rbp",
            "pop rbx",
            out("rax") behind, out("rsi") _, out("rdx") _, out("rcx") _, out("rdi") _, inout("r8") first => _,
            out("r9") _, out("r10") _, out("r11") _, out("r12") _, out("r13") _, out("r14") _, inout("r15") 0u64 => before,
        );
    }
    [before, behind]
}

/// Supervises a task that faults with the time in its message's third word, in two lives. Whoever calls then is told how many
/// instructions there were from a fault to here, in the kernel for the reply, and from the reply to the next life.
pub(crate) fn supervisor() {
    let [at, faulted] = received(0);
    // The other one's before it faults, and the reading here.
    let fault = at - faulted - 3;
    // Before the other one has come to its log, and then after it.
    let [before, behind] = replied(takt_user::abi::fault::RESTART);
    let reply = behind - before - 6;
    received(0);
    sleep_until(Instant::after(Nanos::new(100_000)));
    let [before, _] = replied(takt_user::abi::fault::RESTART);
    let [_, again] = received(0);
    let restart = again - before;
    replied(takt_user::abi::fault::STOP);
    if receive(0, Instant::NEVER).is_err()
        || takt_user::reply([fault, reply, restart, 0, 0, 0]).is_err()
    {
        exit(1);
    }
}

/// Waits for a notification, and says to whoever calls then when it came.
pub(crate) fn bell() {
    let [at, _] = received(1);
    if receive(0, Instant::NEVER).is_err() || takt_user::reply([at; 6]).is_err() {
        exit(1);
    }
}

/// How many instructions the kernel takes from a notification to the [`bell`], which is more important: by handle 4, and this one for
/// calls.
pub(crate) fn cost_of_notification(bell: Peer) -> u64 {
    let before: u64;
    // SAFETY: as in `echo`.
    unsafe {
        asm!(
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "mov r15, rax",
            "mov eax, 8",
            "mov edx, 1",
            "syscall",
            out("rax") _, inout("rsi") 4u64 => _, out("rdx") _, out("rcx") _, out("rdi") _, out("r8") _,
            out("r9") _, out("r10") _, out("r11") _, out("r15") before,
        );
    }
    // The instructions between both readings, and one of these.
    bell.call([0; 6]).map_or(0, |words| words[0] - before - 7)
}

/// How many instructions behind a deadline a thread of a task runs that slept until then. A nanosecond is one of them.
pub(crate) fn cost_of_deadline() -> u64 {
    let deadline = Instant::after(Nanos::from_micros(100)).nanos();
    let at: u64;
    // SAFETY: as in `echo`.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "syscall",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "pop rbp",
            "pop rbx",
            inout("rax") 3u64 => at, inout("rsi") deadline => _, out("rdx") _, out("rcx") _, out("rdi") _, out("r8") _,
            out("r9") _, out("r10") _, out("r11") _, out("r12") _, out("r13") _, out("r14") _, out("r15") _,
        );
    }
    at - deadline
}
