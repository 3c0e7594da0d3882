//! Fuzzes [`takt_fuzz::targets::rules`].
#![no_main]

use takt_fuzz::targets::rules as target;

libfuzzer_sys::fuzz_target!(init: takt_fuzz::start(target::seeds()), |input: &[u8]| target::run(input));
