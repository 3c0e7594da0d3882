//! Logging keeps nobody waiting.

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

target_test! {
    /// A message has interrupts off for one short step at a time, and preemption at no time else.
    fn messages_are_made_with_interrupts_on(Shared) {
        let (irqs, preemption) = (longest("irqsoff")?.get(), longest("preemptirqsoff")?.get());
        note!("{irqs} and {preemption} instructions");
        check!((1..=60).contains(&irqs), "interrupts are off for {irqs} instructions");
        check!((1..=60).contains(&preemption), "no switch for {preemption} instructions");
        Ok(())
    }
}
