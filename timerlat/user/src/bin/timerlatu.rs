//! The task that `latency-run -u` measures: it waits for one activation after the other, and does no work.
#![no_std]
#![no_main]

use takt_user::{log, timerlat::Timerlat};

takt_user::entry!(main);

fn main(cpu: u64) {
    match Timerlat::open(cpu as u32) {
        // Until it is stopped, at the end of the measurement.
        Ok(timerlat) => while timerlat.wait().is_ok() {},
        Err(error) => log!("CPU {cpu} cannot be measured: {error:?}"),
    }
}
