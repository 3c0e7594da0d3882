//! Calls with any arguments.

use core::arch::asm;

use takt_user::abi::Call;

/// A call with four arguments; its result, and its value.
pub(crate) fn raw(call: Call, [a, b, c, d]: [u64; 4]) -> [u64; 2] {
    let (status, value);
    // SAFETY: no memory is written but what the arguments say.
    unsafe {
        asm!(
            "syscall",
            inout("rax") call as u64 => status, inout("rsi") a => _, inout("rdx") b => value, in("r12") c, in("r13") d,
            clobber_abi("sysv64"),
        );
    }
    [status, value]
}
