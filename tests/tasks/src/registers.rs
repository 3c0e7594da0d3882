//! What threads have in the SSE registers over a call: each its own, and nothing of whom it calls or is called by.

use core::arch::global_asm;

use takt_user::abi::Call;
use takt_user::exit;

const ROUNDS: u64 = 8;

global_asm!(
    ".text",
    // rdi = 16 SSE registers, of which others are there behind it; rsi, rdx = the call's arguments, rcx = its number. Gives the result.
    "takt_call_with_registers:",
    ".irp r, rbx,rbp,r12,r13,r14,r15,rdi",
    "push \\r",
    ".endr",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movups xmm\\n, [rdi + 16 * \\n]",
    ".endr",
    "mov rax, rcx",
    "syscall",
    "pop rdi",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "movups [rdi + 16 * \\n], xmm\\n",
    ".endr",
    ".irp r, r15,r14,r13,r12,rbp,rbx",
    "pop \\r",
    ".endr",
    "ret",
);

unsafe extern "C" {
    fn takt_call_with_registers(registers: &mut [u128; 16], a: u64, b: u64, number: u64) -> u64;
}

/// Calls with numbers of this task's own in all of them, and ends the thread's task unless they are there again.
fn keep(own: u128, call: Call, a: u64, b: u64) {
    let expected: [u128; 16] = core::array::from_fn(|at| own << 64 | at as u128 + 1);
    let mut registers = expected;
    // SAFETY: it keeps what a function has to keep, and the calls change no memory.
    let status = unsafe { takt_call_with_registers(&mut registers, a, b, call as u64) };
    if status != 0 || registers != expected {
        exit(1);
    }
}

/// Calls the first of the peers.
pub(crate) fn ask() {
    for round in 0..ROUNDS {
        keep(0x00a5_0000 | u128::from(round), Call::Call, 0, 0);
    }
}

/// Answers.
pub(crate) fn answer() {
    keep(0x005a_0000, Call::Receive, 0, u64::MAX);
    for round in 1..ROUNDS {
        let own = 0x005a_0000 | u128::from(round);
        keep(own, Call::ReplyAndReceive, 0, u64::MAX);
    }
    keep(0x0055_0000, Call::Reply, 0, 0);
}
