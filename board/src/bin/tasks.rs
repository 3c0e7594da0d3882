//! Starts the tasks of a manifest (`takt.app.toml`), and is over when they are.
//!
//! `cargo xtask run --manifest FILE` builds and boots it.
#![no_std]
#![no_main]

takt_board::entry!(main);

fn main(_: &'static str) {
    takt_board::tasks::run();
}
