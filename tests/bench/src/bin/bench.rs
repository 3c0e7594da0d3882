//! The image that `cargo xtask bench` boots: counts instructions and says them on the serial port. `only=GROUP`
//! measures one group of rows.
#![no_std]
#![no_main]

use takt_board::cmdline::CommandLine;

takt_board::entry!(main);

fn main(command_line: &'static str) {
    takt_bench::measure::boot();
    takt_bench::threads::must(
        "priority",
        takt_kernel::thread::current().set_priority(takt_bench::threads::MAIN),
    );
    takt_bench::measure::all(CommandLine(command_line).get("only"));
}
