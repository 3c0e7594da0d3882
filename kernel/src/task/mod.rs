//! Protected tasks: programs in ring 3, each in an address space of its own, that talk by messages.
//!
//! | module | what |
//! |---|---|
//! | `program` | what xtask packs into the image of a task |
//! | `frame` | what a task that is in the kernel has left there |
//! | `fault` | what a task was stopped for |
//! | `callers` | who had called whom in it then |
//! | `account` | what a task may still run |
//! | `overrun` | what becomes of one that has used its budget |
//! | `pending` | faults that the kernel has in store for a task |
//! | `watchdog` | what becomes of one that does not say that it lives |
//! | `object` | a task, and what the kernel keeps of it |
//! | `life` | how a task begins, is stopped and begins anew |
//! | `threads` | further threads of a task, which begin and end with it |
//! | `log` | lines of text and frames that it logs |
//! | `trace` | events that it emits |
//! | `ipc` | messages and notifications |
//! | `semaphore` | semaphores that tasks share |
//! | `lease` | memory that a task lends |
//! | `borrow` | calls that lend it, and what whoever is called does with it |
//! | `gate` | how a line of interrupts is masked |
//! | `device` | interrupts of devices that tasks have |
//! | [`timerlat`] | threads of tasks that timerlat measures |
//! | `calls` | what comes in from ring 3 |
//!
//! A task has one thread or more, each of which is a thread of the kernel in every way: it has its priority, its stack in the
//! kernel, and inherits priorities. Each has a block [`Task`] of its own; what is said of a task's thread here holds for each.
//! What a task was not given does not exist for it: it names other tasks by handles, which are places in a static table.
//!
//! # Invariants
//! * What a [`Port`](object::Port) has changes inside sections only, and so does the frame of a thread that waits.
//! * A task that waits to receive owes no reply, and nobody waits for one.
//! * A task lends something only while its thread waits for a reply, or has yet to learn that it does no more: whoever it has called
//!   then has that thread as its port's `caller`, or had it.
//! * A task's thread keeps the port's mutex from its beginning to its end.
//!
//! # How it is built
//! xtask builds each task as an ELF file of its own, linked by `kernel/user/ld/task.ld` to a region of 2 MiB from 512 GiB
//! on, where the kernel maps nothing: the first at `0x8000000000`, the next behind it. So an address says whose it is. Code
//! and constants are put into the image page by page, and mapped where they lie; data are copied at the beginning of each
//! life. The ELF files are in the image as well, in a section that is not loaded, for the names of addresses and the formats
//! of logs.
//! The strings of a task's log lie behind its region, where no memory is, at a multiple of 64 KiB, so that the code reaches
//! them and the low half of an address is a string's number. An event's id in a task is the address of its flag, which is
//! the first of two bytes in its data; they are in the order of names, so the kernel's list for the task has them by their
//! place.
//!
//! # The way of a call
//! 1. `syscall` comes to the stub of its CPU (`arch::entry_task`), which knows by its own place where `gs` begins.
//! 2. A call, a reply, a reply and receive, and a notification first try the short way (`arch::ipc`): it looks whether all
//!    is as usual, changes what the way in Rust would change, puts the other space into force and goes back to ring 3 as the
//!    other task. Where anything is unusual nothing was changed, and it goes on here.
//! 3. The stub goes to the top of the thread's stack in the kernel, keeps the message's six registers, the instruction,
//!    stack pointer and flags there (`frame`), and enables interrupts. From here on it is a thread of the kernel, in a call
//!    as any other.
//! 4. `calls::call` does it. A caller announces that it waits for the other task's port: a mutex that the task keeps as long
//!    as it exists, with all of a mutex's inheritance, circles and time-outs. The message goes from frame to frame: the
//!    caller leaves it there if the task waits, else the task takes it when it comes to receive; and so does the reply.
//! 5. A wait without a time-out leaves nothing on the stack but the frame, whichever way it came. On the way back the
//!    address space is loaded if another is in force, and what the kernel had in registers is cleared.
//!
//! A fault tries a short way of its own, if the supervisor is more important: that runs at once, and the task's thread,
//! which was preempted so, goes on later with all the rest. Else it is a call from step 3 on, from its exception's stack.

pub(crate) mod account;
mod borrow;
mod callers;
pub(crate) mod calls;
mod device;
mod fault;
pub(crate) mod frame;
pub(crate) mod gate;
mod ipc;
mod lease;
mod life;
mod log;
pub(crate) mod object;
pub(crate) mod overrun;
mod pending;
mod program;
mod rate;
mod semaphore;
mod threads;
pub mod timerlat;
mod trace;
mod watchdog;

pub use crate::arch::ports::Ports;
pub use crate::probe::flags::Event;
pub use device::{Lines, set_lines};
pub use fault::{Ended, Fault};
pub use life::{start, start_all, start_on};
pub use object::{MAX_PEERS, MAX_TASKS, Task, all, install};
pub use program::{
    Aligned, Budget, Granted, Interrupt, KERNEL_STACK_SIZE, Mapped, Mapping, Memory, Overrun, Peer,
    Program, Segment, Source, UserStack,
};
pub use semaphore::share;
/// What tasks and kernel agree on.
pub use takt_abi as abi;
pub use watchdog::set_machine_watchdog;
