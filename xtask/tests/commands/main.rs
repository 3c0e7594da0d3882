//! The commands as a user types them, with a fake QEMU and a fake image. One binary, since each would be linked with all of
//! xtask.

mod attach;
mod common;
mod cyclictest;
mod errors;
mod exports;
mod flags;
mod golden;
mod interrupts;
mod linux_packages;
mod linux_rt;
mod task_files;
mod terminal;
mod verdicts;
