//! A task that timerlat measures on CPU 0, with work of so many rounds each time.
#![no_std]
#![no_main]

use takt_user::{log, timerlat::Timerlat};

takt_user::entry!(main);

fn main(rounds: u64) {
    match Timerlat::open(0) {
        Ok(timerlat) => {
            while timerlat.wait().is_ok() {
                (0..rounds).for_each(|round| {
                    core::hint::black_box(round);
                });
            }
        }
        Err(error) => log!("not measured: {error:?}"),
    }
}
