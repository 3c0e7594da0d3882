//! What the guest executes, counted from outside by a plugin of QEMU's translator (package `takt-plugin`).
//!
//! Under icount with `shift=0` the guest's clock is the number of instructions that all its CPUs have executed, and the
//! time that was skipped while all of them halted. So between two readings of the clock with no halt in between lie as many
//! nanoseconds as instructions, and these the plugin counts without the guest.
//!
//! | module | content |
//! |---|---|
//! | [`plugin`] | building the plugin, and QEMU's arguments for it |
//! | [`marks`] | the instructions of an image that are logged with their count |
//! | [`mod@format`] | the log as it is written; this is the plugin's own file |
//! | [`log`] | the log as it is read |
//! | [`turns`] | whose instructions were executed between two counts |
//! | [`activations`] | the log's activations of timerlat |
//! | [`walk`] | each activation of a run, its records and its counts together |
//! | [`verify`] | every latency of a run held against the count |
//!
//! # What is not shown
//! How much time a halt skipped is known from the guest's readings of the clock alone, two of which, at known places, have
//! to agree on it in each activation. So a clock that is wrong by the same amount at every reading would not be found, nor
//! would an interrupt that QEMU itself has come too early or late. An instruction that turns out to reach a device is begun
//! anew; the plugin is called for the first beginning only, so it counts once.

pub mod activations;
#[path = "../../../plugin/src/format.rs"]
pub mod format;
pub mod log;
pub mod marks;
pub mod plugin;
pub mod turns;
pub mod verify;
pub mod walk;

pub use plugin::Plugin;
pub use verify::Verification;
