//! Has an interrupt.

use core::arch::asm;

use takt_user::device::acknowledge;
use takt_user::{Instant, exit, receive, reply, reply_and_receive};

use crate::harm;

/// What its interrupt is told as.
const INTERRUPT: u32 = 1;

/// Counts interrupts, and does what it is told by the first word of a message: 1 acknowledges them, 2 does so with the notifications of
/// the second word, 3 is a fault, 4 ends it. The answer is how often it was interrupted, and the error of an acknowledgement or 0.
/// With the argument 1 it waits for one, and says to whoever calls then when it had acknowledged that.
pub(crate) fn run(what: u64) {
    if what == 1 {
        return measured();
    }
    let mut nr = 0;
    let Ok(mut received) = receive(INTERRUPT, Instant::NEVER) else {
        exit(1)
    };
    loop {
        nr += u64::from(received.bits & INTERRUPT != 0);
        let next = match received.call.map(|call| call.message) {
            None => receive(INTERRUPT, Instant::NEVER),
            Some([word, bits, ..]) => {
                let done = match word {
                    1 => acknowledge(INTERRUPT),
                    2 => acknowledge(bits as u32),
                    3 => return harm::run(harm::WRITE),
                    _ => Ok(()),
                };
                let answer = [nr, done.err().map_or(0, |error| error as u64), 0, 0, 0, 0];
                if word == 4 {
                    let _ = reply(answer);
                    return;
                }
                reply_and_receive(answer, INTERRUPT, Instant::NEVER)
            }
        };
        let Ok(next) = next else { exit(2) };
        received = next;
    }
}

fn measured() {
    if acknowledge(INTERRUPT).is_err() {
        exit(1);
    }
    let at: u64;
    // SAFETY: the calls change no memory, and the registers that they do are said here.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "mov eax, 5",
            "mov rdx, -1",
            "syscall",
            "mov eax, 17",
            "mov esi, 1",
            "syscall",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "pop rbp",
            "pop rbx",
            out("rax") at, inout("rsi") u64::from(INTERRUPT) => _, out("rdx") _, out("rcx") _, out("rdi") _, out("r8") _,
            out("r9") _, out("r10") _, out("r11") _, out("r12") _, out("r13") _, out("r14") _, out("r15") _,
        );
    }
    if receive(0, Instant::NEVER).is_err() || reply([at; 6]).is_err() {
        exit(2);
    }
}
