//! The instruction, and the calls.

use core::arch::asm;

use crate::abi::{Call, Error, FAULT, Lending, MESSAGE, NOTIFICATIONS};
use crate::{Incoming, Instant, Message, Received};

/// What a call gives.
struct Given {
    status: u64,
    value: u64,
    message: Message,
}

impl Given {
    fn result(self) -> Result<Self, Error> {
        match Error::from_number(self.status) {
            None => Ok(self),
            Some(error) => Err(error),
        }
    }
}

const NO_MESSAGE: Message = [0; crate::abi::WORDS];

#[inline(always)]
fn syscall(call: Call, a: u64, b: u64, message: Message) -> Given {
    let [mut w0, mut w1, mut w2, mut w3, mut w4, mut w5] = message;
    let (status, value);
    // SAFETY: the kernel changes no memory of the task's but what it lends, which is borrowed, and no register but those that are said
    // here. rbx and rbp are the compiler's own, so they wait on the stack.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "mov rbx, r8",
            "mov rbp, r9",
            "syscall",
            "mov r8, rbx",
            "mov r9, rbp",
            "pop rbp",
            "pop rbx",
            inout("rax") call as u64 => status,
            inout("rsi") a => _,
            inout("rdx") b => value,
            inout("r8") w0,
            inout("r9") w1,
            inout("r12") w2,
            inout("r13") w3,
            inout("r14") w4,
            inout("r15") w5,
            out("rcx") _, out("rdi") _, out("r10") _, out("r11") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
    }
    Given {
        status,
        value,
        message: [w0, w1, w2, w3, w4, w5],
    }
}

/// A call that leaves the message's registers as they were, in which the compiler may have what it likes.
#[inline(always)]
fn short(call: Call, a: u64, b: u64) -> Result<u64, Error> {
    let (status, value);
    // SAFETY: the kernel changes no memory of the task's, and no register but those that are said here.
    unsafe {
        asm!(
            "syscall",
            inout("rax") call as u64 => status,
            inout("rsi") a => _,
            inout("rdx") b => value,
            out("rcx") _, out("rdi") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
    }
    match Error::from_number(status) {
        None => Ok(value),
        Some(error) => Err(error),
    }
}

fn plain(call: Call, a: u64, b: u64) -> Result<u64, Error> {
    syscall(call, a, b, NO_MESSAGE)
        .result()
        .map(|given| given.value)
}

/// Does nothing, for whoever measures it.
#[inline(always)]
pub fn null() {
    let _ = syscall(Call::Null, 0, 0, NO_MESSAGE);
}

/// Lets a task of the same priority run.
pub fn yield_now() {
    // It cannot fail.
    let _ = short(Call::Yield, 0, 0);
}

/// Feeds the task's watchdog, which the manifest gives it: it waits for its whole time again.
///
/// # Errors
/// [`Error::InvalidArgument`] if it has none.
#[inline(always)]
pub fn feed() -> Result<(), Error> {
    short(Call::Feed, 0, 0).map(|_| ())
}

/// The time since the machine was switched on, in nanoseconds.
pub(crate) fn time() -> u64 {
    short(Call::Time, 0, 0).unwrap_or_default()
}

/// Waits until then.
#[inline(always)]
pub fn sleep_until(deadline: Instant) {
    // It cannot fail.
    let _ = short(Call::SleepUntil, deadline.nanos(), 0);
}

#[inline(always)]
pub(crate) fn call(handle: u32, message: Message) -> Result<Message, Error> {
    let given = syscall(Call::Call, handle.into(), 0, message).result()?;
    Ok(given.message)
}

pub(crate) fn call_until(
    handle: u32,
    message: Message,
    deadline: Instant,
) -> Result<Message, Error> {
    let given = syscall(Call::CallUntil, handle.into(), deadline.nanos(), message).result()?;
    Ok(given.message)
}

pub(crate) fn call_lending(
    handle: u32,
    message: Message,
    lending: &Lending,
) -> Result<Message, Error> {
    let at = core::ptr::from_ref(lending).expose_provenance();
    let given = syscall(Call::CallLending, handle.into(), at as u64, message).result()?;
    Ok(given.message)
}

/// Copies between a lease and memory of the task's own.
///
/// # Safety
/// For [`Call::LeaseRead`], `size` bytes at `own` may be written.
#[inline(always)]
pub(crate) unsafe fn copy(
    call: Call,
    lease: u32,
    offset: usize,
    own: usize,
    size: usize,
) -> Result<(), Error> {
    let status: u64;
    // SAFETY: the kernel changes no memory but that which the caller says, and no register but those that are said here.
    unsafe {
        asm!(
            "syscall",
            inout("rax") call as u64 => status,
            inout("rsi") u64::from(lease) => _,
            inout("rdx") own => _,
            in("r12") offset,
            in("r13") size,
            out("rcx") _, out("rdi") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
    }
    Error::from_number(status).map_or(Ok(()), Err)
}

pub(crate) fn lease_info(lease: u32) -> Result<u64, Error> {
    short(Call::LeaseInfo, lease.into(), 0)
}

pub(crate) fn notify(handle: u32, bits: u32) -> Result<(), Error> {
    plain(Call::Notify, handle.into(), bits.into()).map(|_| ())
}

pub(crate) fn take(handle: u32, deadline: Instant) -> Result<(), Error> {
    short(Call::Take, handle.into(), deadline.nanos()).map(|_| ())
}

pub(crate) fn give(handle: u32) -> Result<(), Error> {
    short(Call::Give, handle.into(), 0).map(|_| ())
}

pub(crate) fn renew(handle: u32) -> Result<(), Error> {
    plain(Call::Renew, handle.into(), 0).map(|_| ())
}

#[inline(always)]
fn received(given: Given) -> Result<Received, Error> {
    let given = given.result()?;
    let what = given.value as u32;
    Ok(Received {
        bits: what & NOTIFICATIONS,
        call: (what & MESSAGE != 0).then_some(Incoming {
            badge: (given.value >> 32) as u32,
            is_fault: what & FAULT != 0,
            message: given.message,
        }),
    })
}

/// Waits for a message or for one of these notifications, until `deadline` at most; with the mask
/// 0 for messages only.
///
/// # Errors
/// [`Error::TimedOut`]; [`Error::NotReplied`]; [`Error::InvalidArgument`] for other bits than
/// [`NOTIFICATIONS`](crate::abi::NOTIFICATIONS).
#[inline(always)]
pub fn receive(mask: u32, deadline: Instant) -> Result<Received, Error> {
    received(syscall(
        Call::Receive,
        mask.into(),
        deadline.nanos(),
        NO_MESSAGE,
    ))
}

/// Answers the message that was received last.
///
/// # Errors
/// [`Error::NothingToReply`].
#[inline(always)]
pub fn reply(message: Message) -> Result<(), Error> {
    syscall(Call::Reply, 0, 0, message).result().map(|_| ())
}

/// Answers the message that was received last, and waits as [`receive`] does.
///
/// # Errors
/// [`Error::NothingToReply`], or as [`receive`].
#[inline(always)]
pub fn reply_and_receive(
    message: Message,
    mask: u32,
    deadline: Instant,
) -> Result<Received, Error> {
    received(syscall(
        Call::ReplyAndReceive,
        mask.into(),
        deadline.nanos(),
        message,
    ))
}

#[inline(always)]
pub(crate) fn acknowledge(notifications: u32) -> Result<(), Error> {
    short(Call::Acknowledge, notifications.into(), 0).map(|_| ())
}

pub(crate) fn timerlat_open(cpu: u32) -> Result<(), Error> {
    short(Call::TimerlatOpen, cpu.into(), 0).map(|_| ())
}

#[inline(always)]
pub(crate) fn timerlat_wait(ran_at: u64) -> Result<u64, Error> {
    short(Call::TimerlatWait, ran_at, 0)
}

pub(crate) fn timerlat_close() {
    // It is the task's.
    let _ = short(Call::TimerlatClose, 0, 0);
}

pub(crate) fn log(text: &[u8]) {
    // The address is the task's own.
    let _ = plain(Call::Log, text.as_ptr() as u64, text.len() as u64);
}

#[inline(always)]
pub(crate) fn trace(event: u64, bytes: u64, words: [u64; 4]) {
    let [w0, w1, w2, w3] = words;
    // SAFETY: the kernel changes no memory of the task's, and no register but those that are said here.
    unsafe {
        asm!(
            "syscall",
            inout("rax") Call::Trace as u64 => _,
            inout("rsi") event => _,
            inout("rdx") bytes => _,
            in("r12") w0, in("r13") w1, in("r14") w2, in("r15") w3,
            out("rcx") _, out("rdi") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
    }
}

#[cfg(feature = "task")]
pub(crate) fn log_frame(at: *const u8, len: usize) {
    // The address is the task's own.
    let _ = plain(Call::LogFrame, at as u64, len as u64);
}

/// Ends the task with a code: 0 says that all went well.
pub fn exit(code: u64) -> ! {
    loop {
        // It does not come back.
        let _ = plain(Call::Exit, code, 0);
    }
}

/// Has the kernel stop the task as one that panicked.
#[cfg(feature = "task")]
pub(crate) fn panicked() -> ! {
    loop {
        // It does not come back.
        let _ = plain(Call::Panic, 0, 0);
    }
}
