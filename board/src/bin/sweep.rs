//! The image that `cargo xtask latency-sweep` boots: one workload, interrupted at every instruction.
#![no_std]
#![no_main]

takt_board::entry!(main);

fn main(command_line: &'static str) {
    takt_board::sweep::start(command_line);
}
