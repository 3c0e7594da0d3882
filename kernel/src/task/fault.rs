//! What a task was stopped for, and how it is told.

use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use takt_abi::FaultKind;

/// A fault, with all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What it was.
    pub kind: FaultKind,
    /// The CPU's error code.
    pub code: u64,
    /// What a page fault is about, or the number of a call that there is not.
    pub address: u64,
    /// The instruction.
    pub rip: u64,
    /// The stack pointer.
    pub rsp: u64,
    /// r15 to r8, rbp, rdi, rsi, rdx, rcx, rbx, rax; those of a message alone where it was a call.
    pub registers: [u64; 15],
}

/// A fault that the kernel has in store for a task: its next instruction raises it.
pub(crate) struct Pending {
    /// The kind and one, or 0.
    kind: AtomicU8,
    /// The instruction that it was before.
    rip: AtomicU64,
}

impl Pending {
    /// Where a task that has one goes on: there it has nothing.
    pub(super) const PLACE: u64 = 0;

    pub(super) const fn new() -> Self {
        Self {
            kind: AtomicU8::new(0),
            rip: AtomicU64::new(0),
        }
    }

    pub(super) fn is_some(&self) -> bool {
        self.kind.load(Relaxed) != 0
    }

    /// There is one.
    pub(super) fn set(&self, kind: FaultKind, rip: u64) {
        self.rip.store(rip, Relaxed);
        self.kind.store(kind as u8 + 1, Relaxed);
    }

    /// There is none any more. Gives what it was.
    pub(super) fn take(&self) -> Option<(FaultKind, u64)> {
        let kind = self.kind.swap(0, Relaxed).checked_sub(1)?;
        let kind = FaultKind::from_number(kind.into())?;
        Some((kind, self.rip.load(Relaxed)))
    }
}

/// What the threads of a task have in common, of a task that has several.
pub(super) struct Group {
    /// The handle of a further thread, while there is one.
    pub(super) handle: AtomicU32,
    /// Whether the threads are to stop.
    pub(super) is_stopping: AtomicBool,
    /// Whether no further life begins.
    pub(super) is_over: AtomicBool,
    /// What has stopped the task: the thread's number, and its fault.
    pub(super) cause: UnsafeCell<Option<(usize, Fault)>>,
}

impl Group {
    pub(super) const fn new() -> Self {
        Self {
            handle: AtomicU32::new(0),
            is_stopping: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            cause: UnsafeCell::new(None),
        }
    }
}

/// How a life ended.
#[derive(Clone, Copy, Debug)]
pub enum Ended {
    /// By itself, with this code.
    Exited(u64),
    /// It was stopped.
    Stopped(Fault),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name(self.kind))?;
        match self.kind {
            FaultKind::PageFault => {
                let (access, why) = self.access();
                write!(f, " {access} {:#018x}, {why}", self.address)?;
            }
            FaultKind::IllegalCall => write!(f, " {:#x}", self.address)?,
            _ => {}
        }
        write!(f, ", at {:#018x}", self.rip)
    }
}

impl Fault {
    /// What a page fault was about, and why it was one.
    fn access(&self) -> (&'static str, &'static str) {
        let access = match self.code & 0x12 {
            0x10 => "executing",
            0x02 => "writing",
            _ => "reading",
        };
        let why = match self.code & 1 {
            0 => "not mapped",
            _ => "not permitted",
        };
        (access, why)
    }

    /// The frame pointer.
    pub(super) fn rbp(&self) -> u64 {
        self.registers[8]
    }

    pub(super) fn log(&self, task: &str) {
        let kind = name(self.kind);
        match self.kind {
            FaultKind::Killed => defmt::info!("task '{=str}' was {=str}", task, kind),
            FaultKind::PageFault => {
                let (access, why) = self.access();
                defmt::error!(
                    "task '{=str}' stopped: {=str} {=str} {=u64:#018x}, {=str}, at {=u64:#018x}, rsp {=u64:#018x}",
                    task,
                    kind,
                    access,
                    self.address,
                    why,
                    self.rip,
                    self.rsp
                );
            }
            _ => defmt::error!(
                "task '{=str}' stopped: {=str} {=u64:#x}, at {=u64:#018x}, rsp {=u64:#018x}",
                task,
                kind,
                self.address,
                self.rip,
                self.rsp
            ),
        }
    }
}

/// The manual's name.
fn name(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::DivideError => "#DE divide error",
        FaultKind::Debug => "#DB debug exception",
        FaultKind::Breakpoint => "#BP breakpoint",
        FaultKind::Overflow => "#OF overflow",
        FaultKind::BoundRange => "#BR bound range exceeded",
        FaultKind::InvalidOpcode => "#UD invalid opcode",
        FaultKind::DeviceNotAvailable => "#NM device not available",
        FaultKind::InvalidTss => "#TS invalid TSS",
        FaultKind::SegmentNotPresent => "#NP segment not present",
        FaultKind::StackFault => "#SS stack fault",
        FaultKind::GeneralProtection => "#GP general protection",
        FaultKind::PageFault => "#PF page fault",
        FaultKind::X87 => "#MF x87 floating-point error",
        FaultKind::Alignment => "#AC alignment check",
        FaultKind::Simd => "#XM SIMD floating-point exception",
        FaultKind::ControlProtection => "#CP control protection",
        FaultKind::IllegalCall => "illegal call",
        FaultKind::Panic => "panic",
        FaultKind::Other => "an exception without a name",
        FaultKind::BudgetOverrun => "budget overrun",
        FaultKind::Watchdog => "its watchdog was not fed",
        FaultKind::WithTask => "stopped with its task",
        FaultKind::Killed => "killed, since timerlat has ended",
    }
}
