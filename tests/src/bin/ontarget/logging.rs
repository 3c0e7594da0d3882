//! Logging keeps nobody waiting.

use core::fmt;

use takt_kernel::time::Nanos;
use takt_kernel::trace::latency;
use takt_kernel::trace::{self, set_tracer};
use takt_tests::harness::Failure;
use takt_tests::{check, note, target_test};

/// The longest stretch under a tracer of sections while a message with four arguments is logged.
fn longest(tracer: &str) -> Result<Nanos, Failure> {
    trace::tracing_on();
    set_tracer(tracer)?;
    latency::set_max(Nanos::ZERO);
    defmt::info!("{=u32} {=u64} {=str} {=[u8]}", 1, 2, "three", [4; 8]);
    let longest = latency::max();
    set_tracer("nop")?;
    trace::tracing_off();
    Ok(longest)
}

/// Fails a check while it is formatted.
struct Fails;

impl fmt::Display for Fails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = Failure::new(format_args!("a check within"));
        f.write_str("fails")
    }
}

target_test! {
    /// What a failure is about may fail a check itself.
    fn a_failure_within_another(Alone) {
        let _ = Failure::new(format_args!("{Fails}"));
        Ok(())
    }

    /// A message has interrupts off for one short step at a time, and preemption at no time else.
    fn messages_are_made_with_interrupts_on(Shared) {
        let (irqs, preemption) = (longest("irqsoff")?.get(), longest("preemptirqsoff")?.get());
        note!("{irqs} and {preemption} instructions");
        check!((1..=60).contains(&irqs), "interrupts are off for {irqs} instructions");
        check!((1..=60).contains(&preemption), "no switch for {preemption} instructions");
        Ok(())
    }
}
