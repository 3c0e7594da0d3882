//! The task that `latency-run -u` and `cyclictest --user-threads` measure: it waits for one activation after the other, and reads
//! the clock.
#![no_std]
#![no_main]

use takt_user::{Cycles, log, timerlat::Timerlat};

takt_user::entry!(main);

fn main(cpu: u64) {
    match Timerlat::open(cpu as u32) {
        // Until it is stopped, at the end of the measurement.
        Ok(timerlat) => {
            let mut ran_at = Cycles::ZERO;
            while timerlat.wait_after(ran_at).is_ok() {
                ran_at = Cycles::now();
            }
        }
        Err(error) => log!("CPU {cpu} cannot be measured: {error:?}"),
    }
}
