//! The on-target tests of function tracing, in an image whose functions have entries that can be patched.
#![no_std]
#![no_main]

mod graph;
mod graph_ways;
mod hooks;
mod live;
mod profile;
mod records;
mod stack_max;
mod stacks;

takt_board::entry!(takt_tests::harness::main);
