//! Hands the target that [`takt_fuzz::TARGET`] names to libFuzzer.
#![no_main]

use std::sync::OnceLock;

use takt_fuzz::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(init: takt_fuzz::start(TARGET.get_or_init(takt_fuzz::chosen)), |input: &[u8]| {
    (TARGET.get_or_init(takt_fuzz::chosen).run)(input)
});
