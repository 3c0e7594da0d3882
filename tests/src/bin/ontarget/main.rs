//! The on-target tests: the kernel's promises, one module a subject. `cargo xtask test` boots this image.
#![no_std]
#![no_main]

use takt_board::cmdline::CommandLine;
use takt_kernel::fault::ExitCode;
use takt_tests::harness::{self, Expect};

mod condvar;
mod day;
mod devices;
mod faults;
mod flags;
mod inheritance;
mod interrupts;
mod latency;
mod mapping;
mod multi;
mod preemption;
mod queue;
mod registers;
mod round_robin;
mod stress;
mod threads;
mod timeouts;
mod timers;
mod tracing;

takt_board::entry!(main);

/// `test=list` names the tests, `test=A,B` runs these, otherwise those that share a boot run; of either those behind
/// `after=NAME` in the table.
fn main(text: &'static str) {
    let line = CommandLine(text);
    let tests = harness::tests();
    let wanted = line.get("test");
    if wanted == Some("list") {
        harness::list();
        return;
    }
    let after = line
        .get("after")
        .and_then(|name| tests.iter().position(|test| test.name() == name));
    let chosen = tests
        .iter()
        .skip(after.map_or(0, |at| at + 1))
        .filter(|test| match wanted {
            Some(names) => names.split(',').any(|name| name == test.name()),
            None => matches!(test.expect, Expect::Shared),
        });
    let code = if harness::run(chosen) {
        ExitCode::Passed
    } else {
        ExitCode::Failed
    };
    takt_board::end(code)
}
