//! The tracer of a running guest as Linux's tracefs: one virtual file tree, driven by a shell or mounted with FUSE.
//!
//! ```text
//!  shell ──┐
//!          ├─> tree ─> files ─> Session ─> Guest ── reads ──> RAM: rings, ControlBlock, code, threads
//!  mount ──┘                                    ── lines ──> RTT down channel 1, answered in the ControlBlock
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`guest`] | the running guest: its RAM, its state, settings sent to it |
//! | [`state`] | what the latency and function tracers keep in its RAM |
//! | [`launch`] | starting one, and attaching to one that runs |
//! | [`session`] | what is remembered between accesses: options, how far the pipes have read, errors |
//! | [`buffer`] | the rings' content, decoded |
//! | [`counts`] | how many events the rings were given |
//! | [`tree`] | which files there are |
//! | [`files`] | one module for each group of files |
//! | [`shell`] | `tracefs shell` |
//! | [`mount`] | what `tracefs mount` needs; `takt-mount` mounts |
//!
//! Reading takes nothing from the guest and costs it nothing: what a pipe has read is remembered here. Settings are
//! carried out by a thread of the guest, which is there only if the guest was started for it.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` and `term` write what can fail: into a closed pipe, onto a full disk"
)]

pub mod buffer;
pub mod counts;
pub mod guest;
pub mod launch;
pub mod mount;
pub mod session;
pub mod shell;
mod snapshot;
pub mod state;
pub mod tree;

mod errors;
pub mod files;
mod format;
mod render;

pub use session::Session;

/// What an access comes to: the numbers of errors are Linux's.
pub type Result<T> = std::result::Result<T, rustix::io::Errno>;

/// The number of an I/O error; `EIO` if it has none.
fn errno(error: &std::io::Error) -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO)
}
