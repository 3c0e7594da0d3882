//! What the kernel and its protected tasks agree on: the numbers of calls, of errors and of faults, and what lies where.
//!
//! A call is `syscall` with its number in `eax` and up to two arguments in `rsi` and `rdx`. A message is six words, in `rbx`,
//! `rbp` and `r12` to `r15`. The result is an [`Error`]'s number or 0 in `rax`, a value in `rdx`, and for calls that receive
//! the message in its registers. Calls that are not about messages leave these as they were, and those that copy have two more arguments
//! in `r12` and `r13`. All other registers are lost.
//!
//! `gs` is lost at any instruction, and so are the selectors of data. `fs` begins at the thread's first stack pointer: what else a thread
//! makes of it is lost at any instruction as well.
#![no_std]

/// Of all that is here. It rises with each change.
pub const VERSION: u32 = 11;

/// Words of a message.
pub const WORDS: usize = 6;

/// Windows of the caller's memory that one [`Call::CallLending`] can lend.
pub const MAX_LEASES: usize = 4;

/// A window of the caller's memory. It lies in one of the parts that the task's memory consists of: data, stack, constants, code, a
/// region. A device's memory is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Lease {
    /// Where it begins.
    pub address: u64,
    /// Bytes.
    pub size: u32,
    /// What whoever is called may do with it: [`lease`]. 0 where none is lent.
    pub rights: u32,
}

impl Lease {
    /// Nothing.
    pub const NONE: Self = Self {
        address: 0,
        size: 0,
        rights: 0,
    };
}

/// What [`Call::CallLending`] reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Lending {
    /// Until when it waits for the reply; [`u64::MAX`] for ever.
    pub deadline: u64,
    /// What is lent, by its numbers.
    pub leases: [Lease; MAX_LEASES],
}

/// What a [`Lease`] allows whoever is called.
pub mod lease {
    /// [`Call::LeaseRead`](super::Call::LeaseRead): the caller may read it itself.
    pub const READ: u32 = 1 << 0;
    /// [`Call::LeaseWrite`](super::Call::LeaseWrite): the caller may write to it itself.
    pub const WRITE: u32 = 1 << 1;
}

/// Bytes of text that one [`Call::Log`] takes; what is longer is cut. A frame of [`Call::LogFrame`] that is longer is lost.
pub const MAX_LOG: usize = 120;

/// Where tasks lie: the first at this address, each further one [`REGION`] behind it. The kernel maps nothing there.
pub const FIRST_REGION: usize = 1 << 39;
/// Bytes of address space that a task has. Its code begins where it does, its stack ends where it does.
pub const REGION: usize = 2 << 20;
/// Bytes at the end of a thread's stack that are the thread's own, as `fs` says, which begins there. The first stack pointer is
/// below them.
pub const OWN: usize = 128;

/// In what [`Call::Receive`] gives: there is a message, of a task that waits for a reply.
pub const MESSAGE: u32 = 1 << 31;
/// Besides: the message is a [`fault`] of the task that its badge names, by its number.
pub const FAULT: u32 = 1 << 30;
/// Bits that can be notified.
pub const NOTIFICATIONS: u32 = FAULT - 1;

/// Declares an enumeration whose variants are numbers from 0 on, with the list of all.
macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident: $($(#[$of:meta])* $variant:ident = $number:literal,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$of])* $variant = $number,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The one of this number.
            #[inline(always)]
            #[must_use]
            pub fn from_number(number: u64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

numbers! {
    /// Calls. One of another number stops the task.
    Call:
    /// Does nothing.
    Null = 0,
    /// Lets a task of the same priority run.
    Yield = 1,
    /// The time since the machine was switched on, in nanoseconds.
    Time = 2,
    /// Waits until that time is `rsi`.
    SleepUntil = 3,
    /// Sends a message to the task that the handle `rsi` names, and waits for the reply, which is in the message's registers then.
    Call = 4,
    /// Waits for a message or for one of the notifications `rsi`, until the time `rdx` at most. The value is what came, in its
    /// low half, and the sender's badge in the high one.
    Receive = 5,
    /// Answers the message that was received last.
    Reply = 6,
    /// Both in one: first the reply, then as [`Call::Receive`].
    ReplyAndReceive = 7,
    /// Has the task that the handle `rsi` names receive the notifications `rdx`.
    Notify = 8,
    /// Writes `rdx` bytes of text from the address `rsi` to the log.
    Log = 9,
    /// Ends the task, with the code `rsi`.
    Exit = 10,
    /// From now on the handle `rsi` means the life that the task lives now that it names.
    Renew = 11,
    /// Stops the task as after a fault: it has panicked.
    Panic = 12,
    /// From now on timerlat measures the task's thread, on the CPU `rsi`, which has to be its own.
    TimerlatOpen = 13,
    /// Tells timerlat that the work of the activation before is done, and waits for the next one. The value is when that was
    /// due, in cycles of the TSC. `rsi` is when the task itself found that it ran, likewise, for a measurement that asks for it.
    TimerlatWait = 14,
    /// Timerlat measures the task's thread no more.
    TimerlatClose = 15,
    /// As [`Call::Call`], but waits for the reply until the time `rdx` at most.
    CallUntil = 16,
    /// Lets the device's interrupts come again whose notifications are `rsi`.
    Acknowledge = 17,
    /// Feeds the task's watchdog: it waits for its whole time again.
    Feed = 18,
    /// Has the log take the `rdx` bytes from the address `rsi` as a frame of defmt's, in the task's own formats: not encoded, and
    /// without a time stamp.
    LogFrame = 19,
    /// As [`Call::CallUntil`], and lends windows of the task's memory until it goes on: what is lent, and until when it waits, is a
    /// [`Lending`] at the address `rdx`.
    CallLending = 20,
    /// Copies `r13` bytes to the address `rdx` from what is lent with the message that was received last: from the lease `rsi`, from
    /// its byte `r12` on.
    LeaseRead = 21,
    /// Copies `r13` bytes from the address `rdx` to the lease `rsi`, from its byte `r12` on.
    LeaseWrite = 22,
    /// What the lease `rsi` is: the value is its size, in its low half, and its rights in the high one.
    LeaseInfo = 23,
    /// Records the event whose flag's address has `rsi` as its lower half, if it is on. Its extra words are in `r12` to `r15`; of a
    /// dynamic field `rdx` is the address, and the upper half of `rsi` how many bytes it has.
    Trace = 24,
    /// Takes a permit of the semaphore that the handle `rsi` names, waiting for one until the time `rdx` at most.
    Take = 25,
    /// Gives the semaphore that the handle `rsi` names a permit, which the most important one of those who wait has.
    Give = 26,
}

numbers! {
    /// Why a call did not do what it was asked to. 0 says that it did.
    Error:
    /// There is no such handle.
    NoHandle = 1,
    /// The handle, or the lease, does not allow that.
    NoRight = 2,
    /// The handle means an earlier life of the task: it was started again since. [`Call::Renew`] helps.
    Stale = 3,
    /// The task has ended, or was stopped before it replied.
    Dead = 4,
    /// The message that was received last has no reply yet.
    NotReplied = 5,
    /// No message has been received that has no reply yet.
    NothingToReply = 6,
    /// The time has passed.
    TimedOut = 7,
    /// The task does not have all of that memory, or not for that, or not in one part.
    BadAddress = 8,
    /// The task that is called waits for the caller.
    Deadlock = 9,
    /// An argument is out of its range, or nothing is there that the call is about.
    InvalidArgument = 10,
    /// Another thread has it.
    Busy = 11,
    /// The thread is not where it has to be for that.
    NotPermitted = 12,
    /// The kernel has no more of what that takes.
    OutOfResources = 13,
    /// The caller's budget was used up before the reply, which goes nowhere.
    BudgetSpent = 14,
    /// Nothing is lent by that number.
    NoLease = 15,
    /// Whoever lent it waits no more, so nothing is lent; a part may have been copied.
    Revoked = 16,
    /// The semaphore has as many permits as it may have.
    Overflow = 17,
}

/// What a message about a fault consists of, by the place of each word.
pub mod fault {
    /// The [`Kind`](super::FaultKind)'s number.
    pub const KIND: usize = 0;
    /// The address of the instruction.
    pub const RIP: usize = 1;
    /// The address that a page fault is about, or the number of a call that there is not.
    pub const ADDRESS: usize = 2;
    /// The CPU's error code.
    pub const CODE: usize = 3;
    /// The stack pointer.
    pub const RSP: usize = 4;
    /// Which life of the task it was, from 1 on.
    pub const GENERATION: usize = 5;

    /// In the reply's first word: the task stays stopped.
    pub const STOP: u64 = 0;
    /// In the reply's first word: it begins anew.
    pub const RESTART: u64 = 1;
}

numbers! {
    /// Why the kernel stopped a task. Below 32 they are the vectors of the CPU's exceptions.
    FaultKind:
    /// #DE.
    DivideError = 0,
    /// #DB.
    Debug = 1,
    /// #BP.
    Breakpoint = 3,
    /// #OF.
    Overflow = 4,
    /// #BR.
    BoundRange = 5,
    /// #UD.
    InvalidOpcode = 6,
    /// #NM.
    DeviceNotAvailable = 7,
    /// #TS.
    InvalidTss = 10,
    /// #NP.
    SegmentNotPresent = 11,
    /// #SS.
    StackFault = 12,
    /// #GP: a privileged instruction, a port, an address that is none.
    GeneralProtection = 13,
    /// #PF: memory that the task does not have, or not for that.
    PageFault = 14,
    /// #MF.
    X87 = 16,
    /// #AC.
    Alignment = 17,
    /// #XM.
    Simd = 19,
    /// #CP.
    ControlProtection = 21,
    /// A call of a number that there is not.
    IllegalCall = 32,
    /// The task's own panic.
    Panic = 33,
    /// An exception that there is no name for.
    Other = 34,
    /// It was measured by timerlat, which has ended.
    Killed = 35,
    /// It has used its budget before its period was over.
    BudgetOverrun = 36,
    /// It has not fed its watchdog in time.
    Watchdog = 37,
    /// Another thread of its task was stopped, or has ended the task.
    WithTask = 38,
}

/// What a handle allows.
pub mod rights {
    /// [`Call::Call`](super::Call::Call).
    pub const CALL: u8 = 1 << 0;
    /// [`Call::Notify`](super::Call::Notify).
    pub const NOTIFY: u8 = 1 << 1;
    /// Of a semaphore: [`Call::Take`](super::Call::Take).
    pub const TAKE: u8 = 1 << 2;
    /// Of a semaphore: [`Call::Give`](super::Call::Give).
    pub const GIVE: u8 = 1 << 3;
}
