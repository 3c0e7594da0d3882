//! QEMU: its command line, its process, the accelerator, and the guest's RAM as a shared file.

pub mod accel;
pub mod command;
pub mod executed;
pub mod exit;
pub mod gate;
mod pin;
pub mod pipe;
pub mod process;
pub mod qmp;
pub mod registers;
mod served;

pub use accel::Accel;
pub use command::Machine;
pub use exit::GuestExit;
pub use gate::Gate;
pub use process::Process;
pub use qmp::Qmp;
pub use registers::Registers;
pub use served::Served;
pub use takt_base::qemu::{PROGRAM, program, version};
pub use takt_guest::ram::{self, Ram};
