//! The on-target tests: the kernel's promises, one module a subject. `cargo xtask test` boots this image.
#![no_std]
#![no_main]

mod arrivals;
mod condvar;
mod day;
mod deadlines;
mod devices;
mod drivers;
mod faults;
mod faults_in_interrupts;
mod flags;
mod giving_way;
mod inheritance;
mod interrupts;
mod latency;
mod lock;
mod logging;
mod manual;
mod mapping;
mod multi;
mod osnoise;
mod passed_over;
mod preemption;
mod punctual;
mod queue;
mod registers;
mod round_robin;
mod rules;
mod settings;
mod stacks;
mod storm;
mod stress;
mod suspended;
mod taken_back;
mod threads;
mod timeouts;
mod timers;
mod tracing;
mod triggers;
mod walks;
mod wires;
mod workload;

takt_board::entry!(takt_tests::harness::main);
