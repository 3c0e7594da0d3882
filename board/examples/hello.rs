//! Two threads, a mutex between them, and a trace event of the application's own.
//!
//! `cargo xtask run hello` builds and boots it and prints its log and its trace.
#![no_std]
#![no_main]

use takt_kernel::sync::{Mutex, Semaphore};
use takt_kernel::thread::Builder;
use takt_kernel::time::{Instant, Nanos, sleep_until};
use takt_kernel::{thread_stack, trace, trace_event};
use takt_tracer::event;

takt_board::entry!(main);

// An event, its fields and how they are printed. It costs nothing but the place where it is emitted: 5 bytes of NOP while it
// is off. Events that have the same fields share a class, see `event_class!`.
event! {
    /// Emitted when a reading was stored.
    pub reading_stored = wide "hello:reading_stored" { channel: 8 u, value: 16 i }
    print "channel={channel} value={value}";
}

thread_stack!(static SAMPLER_STACK: 16384);

static LATEST: Mutex<i16> = Mutex::new(0);
static READY: Semaphore = Semaphore::new(0, 16);

/// Every millisecond, at absolute times, so that nothing drifts.
fn sampler(nr_samples: usize) {
    let period = Nanos::from_millis(1).to_cycles();
    let mut next = Instant::now();
    for n in 0..nr_samples {
        next += period;
        if sleep_until(next).is_err() {
            return;
        }
        let value = (n * n) as i16;
        if let Ok(mut latest) = LATEST.lock() {
            *latest = value;
        }
        trace_event!(reading_stored, 1u8, value);
        // The consumer has a lower priority: it runs when this thread sleeps again.
        let _ = READY.give();
    }
}

fn main(_command_line: &'static str) {
    trace::marker("main begins");
    let sampler = Builder::new("sampler", 80).and_then(|it| it.spawn(&SAMPLER_STACK, sampler, 5));
    let Ok(sampler) = sampler else {
        defmt::error!("the sampler could not be started");
        return;
    };
    for _ in 0..5 {
        // At most 10 ms: a time-out is an error, not a hang.
        match READY.take_until(Instant::after(Nanos::from_millis(10))) {
            Ok(()) => defmt::info!("reading {=i16}", LATEST.lock().map_or(-1, |latest| *latest)),
            Err(error) => defmt::warn!("no reading: {}", error),
        }
    }
    let _ = sampler.join(Instant::NEVER);
}
