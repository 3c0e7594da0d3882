//! Protected tasks: programs in ring 3, each in an address space of its own, that talk by messages.
//!
//! | module | what |
//! |---|---|
//! | `program` | what xtask packs into the image of a task |
//! | `frame` | what a task that is in the kernel has left there |
//! | `fault` | what a task was stopped for |
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

pub(crate) mod account;
mod borrow;
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
    Aligned, Budget, Interrupt, KERNEL_STACK_SIZE, Mapped, Mapping, Memory, Overrun, Peer, Program,
    Segment, Source, UserStack,
};
/// What tasks and kernel agree on.
pub use takt_abi as abi;
pub use watchdog::set_machine_watchdog;
