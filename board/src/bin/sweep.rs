//! The image that `cargo xtask latency-sweep` boots: one workload, interrupted at every instruction.
#![no_std]
#![no_main]

takt_board::entry!(main);

fn main(_: &'static str) {
    takt_board::sweep::start();
}
