//! What a task consists of, as xtask packs it.

use core::cell::UnsafeCell;

use takt_abi::REGION;

use crate::arch::ports::Ports;
use crate::arch::space::{self, Access, Space};
use crate::clock::Nanos;
use crate::probe::flags::Event;
use crate::thread::stack::Stack;

/// Bytes of the stack that a task's thread has in the kernel.
pub const KERNEL_STACK_SIZE: usize = 8192;

/// Bytes on pages of their own.
#[repr(C, align(4096))]
pub struct Aligned<T: ?Sized>(pub T);

/// Memory that tasks write to, on pages of its own: a task's data and behind them its stack, or what tasks share.
#[repr(C, align(4096))]
pub struct Memory<const SIZE: usize>(UnsafeCell<[u8; SIZE]>);

// SAFETY: only tasks that have it use it, and the kernel while the one that has data and stack there does not run.
unsafe impl<const SIZE: usize> Sync for Memory<SIZE> {}

impl<const SIZE: usize> Memory<SIZE> {
    /// Zeros.
    #[expect(clippy::new_without_default, reason = "meant for a static only")]
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(SIZE.is_multiple_of(4096), "whole pages") };
        Self(UnsafeCell::new([0; SIZE]))
    }

    /// Where it is.
    #[must_use]
    pub const fn cell(&'static self) -> &'static UnsafeCell<[u8]> {
        &self.0
    }
}

/// A part of a program that nobody writes to: whole pages, mapped as they lie in the image.
pub struct Segment {
    /// Where the task has it.
    pub at: usize,
    /// Its bytes.
    pub bytes: &'static [u8],
    /// Code, or constants.
    pub is_code: bool,
}

/// Another task that a task knows.
pub struct Peer {
    /// Its number.
    pub task: usize,
    /// What may be done with it: [`takt_abi::rights`].
    pub rights: u8,
    /// Which of that may go the short way: nothing, if it has a budget.
    pub short: u8,
    /// What the other one is told.
    pub badge: u32,
}

/// A semaphore that a task was given.
pub struct Granted {
    /// Which one of those that there are ([`share`](super::share)).
    pub number: u16,
    /// What may be done with it: [`takt_abi::rights`].
    pub rights: u8,
}

/// How long a task may run in each of its periods.
pub struct Budget {
    /// So long.
    pub time: Nanos,
    /// The length of a period.
    pub period: Nanos,
    /// What becomes of the task when it has used that.
    pub overrun: Overrun,
    /// What its supervisor is notified of then, once in a period at most; 0 for nothing.
    pub notification: u32,
}

/// What becomes of a task that has used its budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overrun {
    /// It goes on when the next period begins.
    Throttle,
    /// It is stopped by a fault.
    Fault,
}

/// An interrupt of a device that a task has.
pub struct Interrupt {
    /// The device's name.
    pub device: &'static str,
    /// Where it comes in.
    pub source: Source,
    /// The notification that the task receives.
    pub notification: u32,
    /// Its number among all interrupts of tasks.
    pub number: usize,
}

/// Where an interrupt comes in.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// On the ISA bus, with this number.
    Isa(u8),
    /// At this pin of the I/O APICs, level-triggered and active low: a PCI function's.
    Pin(u32),
}

/// Memory that a task has besides its own: never executable.
pub struct Mapping {
    /// Where the task has it.
    pub at: usize,
    /// What it is.
    pub memory: Mapped,
}

/// What is mapped.
pub enum Mapped {
    /// A region that tasks share, for this one to write to as well or not. It keeps what is in it whoever dies.
    Region(&'static UnsafeCell<[u8]>, bool),
    /// A device's, by its physical address and size.
    Device(usize, usize),
}

// SAFETY: only the tasks use what it points to, by their own rules.
unsafe impl Sync for Mapping {}

/// The stack of a further thread of a task.
pub struct UserStack {
    /// One past the highest address that the task has it at.
    pub top: usize,
    /// Its bytes.
    pub memory: &'static UnsafeCell<[u8]>,
}

// SAFETY: as that of a task's memory.
unsafe impl Sync for UserStack {}

/// A program, by one of the task's threads: of its further ones all of it is the same but for the thread's own.
pub struct Program {
    /// The name of the task, or of its further thread.
    pub name: &'static str,
    /// What a further thread is told.
    pub argument: u64,
    /// The number of the task: that of its first thread.
    pub first: usize,
    /// The numbers of the further threads, if this is the first one.
    pub threads: &'static [usize],
    /// Whether the task has further threads.
    pub has_threads: bool,
    /// The stacks of the further threads.
    pub stacks: &'static [UserStack],
    /// Its thread's priority.
    pub priority: u8,
    /// The CPU that it runs on.
    pub cpu: usize,
    /// Its first instruction.
    pub entry: usize,
    /// Its first stack pointer, where `fs` begins as well.
    pub rsp: usize,
    /// Where its region begins.
    pub base: usize,
    /// Code and constants.
    pub segments: &'static [Segment],
    /// What its data begin with.
    pub data: &'static [u8],
    /// Where it has its data.
    pub data_at: usize,
    /// Bytes of its data: whole pages.
    pub data_size: usize,
    /// Its data and its stack.
    pub memory: &'static UnsafeCell<[u8]>,
    /// Who is told of its faults.
    pub supervisor: Option<usize>,
    /// How long it may run, if there is a limit.
    pub budget: Option<Budget>,
    /// After how long its watchdog bites that is not fed; [`Nanos::ZERO`] if it has none.
    pub watchdog: Nanos,
    /// Whether a life begins with a budget or a watchdog.
    pub is_timed: bool,
    /// Its handles.
    pub peers: &'static [Peer],
    /// Its semaphores, by their handles.
    pub semaphores: &'static [Granted],
    /// Memory besides.
    pub mappings: &'static [Mapping],
    /// Its devices' interrupts.
    pub interrupts: &'static [Interrupt],
    /// The notifications of all of these.
    pub interrupt_notifications: u32,
    /// Where it has the flags of its events, two bytes each.
    pub events_at: usize,
    /// Its events, in the order of their flags.
    pub events: &'static [Event],
    /// The ports that it may use.
    pub ports: Option<&'static Ports>,
    /// Its thread's stack in the kernel.
    pub stack: &'static Stack<KERNEL_STACK_SIZE>,
}

// SAFETY: it is only read; what it points to has its own rules.
unsafe impl Sync for Program {}

impl Program {
    /// Where its memory begins.
    fn memory(&self) -> *mut u8 {
        self.memory.get().cast()
    }

    fn memory_size(&self) -> usize {
        self.memory.get().len()
    }

    /// Bytes of its stack.
    fn stack_size(&self) -> usize {
        self.memory_size() - self.data_size
    }

    /// One past the highest address of the first thread's stack.
    fn stack_top(&self) -> usize {
        self.base + REGION
    }

    /// Maps what it consists of. Below the stack nothing is mapped, so it cannot grow into anything.
    ///
    /// # Safety
    /// As [`Space::map`].
    pub(super) unsafe fn map(&self, space: &Space) {
        // SAFETY: no one uses the space yet, by the caller's promise.
        unsafe { space.begin(self.base, self.ports) };
        for segment in self.segments {
            let access = match segment.is_code {
                true => Access::Execute,
                false => Access::Read,
            };
            let bytes = segment.bytes;
            // SAFETY: the segment is the program's, and nobody writes to it.
            unsafe { space.map(segment.at, bytes.as_ptr(), bytes.len(), access) };
        }
        for mapping in self.mappings {
            let (memory, size, access) = match mapping.memory {
                Mapped::Region(memory, true) => {
                    (memory.get().cast(), memory.get().len(), Access::Write)
                }
                Mapped::Region(memory, false) => {
                    (memory.get().cast(), memory.get().len(), Access::Read)
                }
                Mapped::Device(address, size) => (address as *mut u8, size, Access::Device),
            };
            // SAFETY: a region that the task shares, or a device's that the manifest gives it.
            unsafe { space.map(mapping.at, memory, size, access) };
        }
        let data = self.memory();
        // SAFETY: its data, in memory of its own.
        unsafe { space.map(self.data_at, data, self.data_size, Access::Write) };
        let (stack, size) = (data.wrapping_add(self.data_size), self.stack_size());
        // SAFETY: its stack, in memory of its own.
        unsafe { space.map(self.stack_top() - size, stack, size, Access::Write) };
        for further in self.stacks {
            let (memory, size) = (further.memory.get().cast(), further.memory.get().len());
            // SAFETY: that of a further thread, likewise.
            unsafe { space.map(further.top - size, memory, size, Access::Write) };
        }
    }

    /// Makes its memory what it begins with.
    ///
    /// # Safety
    /// Its thread does, in the kernel.
    pub(super) unsafe fn refresh(&self) {
        let len = self.data.len().min(self.data_size);
        // SAFETY: the memory is the task's, which does not run meanwhile: whole pages.
        unsafe { space::fill(self.memory(), self.memory_size(), &self.data[..len]) };
        for event in self.events {
            event.set_flag((event.is_on)());
        }
    }

    /// Makes the stacks of its further threads zeros.
    ///
    /// # Safety
    /// None of these runs.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn refresh_stacks(&self) {
        for stack in self.stacks {
            let (memory, size) = (stack.memory.get().cast(), stack.memory.get().len());
            // SAFETY: whole pages, of these threads.
            unsafe { space::fill(memory, size, &[]) };
        }
    }

    /// Whether it has code there.
    pub(super) fn is_code(&self, at: u64) -> bool {
        let is_there = |it: &Segment| (at as usize).wrapping_sub(it.at) < it.bytes.len();
        self.segments.iter().any(|it| it.is_code && is_there(it))
    }

    /// Copies from the task's memory, which it names by its own address; false if it is not the task's.
    ///
    /// # Safety
    /// Its thread does, in the kernel.
    pub(super) unsafe fn copy_from(&self, at: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.find(at, to.len(), Access::Read) else {
            return false;
        };
        // SAFETY: so many bytes are there, which other threads of the task may write to.
        unsafe { space::copy(to.as_mut_ptr(), from, to.len()) };
        true
    }

    /// The same as they lie there, if they are the thread's alone.
    ///
    /// # Safety
    /// Its thread does, in the kernel, and has done with them before it leaves.
    pub(super) unsafe fn bytes(&self, at: usize, len: usize) -> Option<&[u8]> {
        let from = self.find(at, len, Access::Read)?;
        let is_shared = |it: &Mapping| match it.memory {
            Mapped::Region(memory, _) => at.wrapping_sub(it.at) < memory.get().len(),
            Mapped::Device(..) => false,
        };
        if self.has_threads || self.mappings.iter().any(is_shared) {
            return None;
        }
        // SAFETY: so many bytes are there, and the caller's duty: nobody changes them meanwhile.
        Some(unsafe { core::slice::from_raw_parts(from, len) })
    }

    /// Where the identity mapping has `len` bytes that the task has at `at`, if it has them all in one part and may read them, or
    /// write to them where that is asked. None are a device's.
    pub(super) fn find(&self, at: usize, len: usize, access: Access) -> Option<*mut u8> {
        let within = |begin: usize, memory: *mut u8, size: usize| {
            // Far beyond if it lies before.
            let offset = at.wrapping_sub(begin);
            (len <= size && offset <= size - len).then(|| memory.wrapping_add(offset))
        };
        let (data, stack_size) = (self.memory(), self.stack_size());
        let stack = data.wrapping_add(self.data_size);
        let writes = access == Access::Write;
        within(self.stack_top() - stack_size, stack, stack_size)
            .or_else(|| within(self.data_at, data, self.data_size))
            .or_else(|| {
                self.mappings.iter().find_map(|it| match it.memory {
                    Mapped::Region(memory, may_write) if may_write || !writes => {
                        within(it.at, memory.get().cast(), memory.get().len())
                    }
                    _ => None,
                })
            })
            .or_else(|| {
                let fixed = if writes { &[] } else { self.segments };
                fixed.iter().find_map(|it| {
                    let bytes = it.bytes;
                    within(it.at, bytes.as_ptr().cast_mut(), bytes.len())
                })
            })
            .or_else(|| self.find_on_stacks(at, len))
    }

    /// The same on the stacks of the further threads.
    #[cold]
    #[inline(never)]
    fn find_on_stacks(&self, at: usize, len: usize) -> Option<*mut u8> {
        self.stacks.iter().find_map(|it| {
            let size = it.memory.get().len();
            let offset = at.wrapping_sub(it.top - size);
            let memory: *mut u8 = it.memory.get().cast();
            (len <= size && offset <= size - len).then(|| memory.wrapping_add(offset))
        })
    }
}
