//! A run of a machine that is not ours: it comes over a serial line, as frames.
//!
//! | module | content |
//! |---|---|
//! | [`port`] | the line: a serial port, a pseudo-terminal, a socket |
//! | [`receiver`] | what the frames say, without a line: who sends, results, trace and log, what was lost |
//! | [`session`] | watching the line from the first byte to the end |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` and `term` write what can fail: into a closed pipe, onto a full disk"
)]

#[macro_use(tell)]
extern crate takt_base;

pub mod port;
pub mod receiver;
pub mod session;

pub use port::Port;
pub use receiver::{Greeting, Image, Receiver};
pub use session::{Session, Taken};
