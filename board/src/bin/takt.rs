//! The image that `cargo xtask latency-run` boots.
#![no_std]
#![no_main]

use takt_kernel::time;

takt_board::entry!(main);

fn main(command_line: &'static str) {
    defmt::info!("command line: {=str}", command_line);
    for i in 0..3u32 {
        defmt::info!("hello {=u32}", i);
        let _ = time::sleep_nanos(1_000_000);
    }
}
