use takt_kernel::sync::Semaphore;
use takt_kernel::thread::Builder;
use takt_kernel::time::{Instant, Nanos, sleep};
use takt_kernel::{Error, thread_stack};

// Nothing is there yet; two at most.
static READY: Semaphore = Semaphore::new(0, 2);
thread_stack!(static STACK: 16384);

fn produce(_: usize) {
    let _ = sleep(Nanos::from_micros(50));
    // Interrupt handlers may give as well.
    let _ = READY.give();
}

pub fn example() -> Result<(), Error> {
    let thread = Builder::new("producer", 60)?.spawn(&STACK, produce, 0)?;
    // A millisecond at most: a time-out is an error.
    READY.take_until(Instant::after(Nanos::from_millis(1)))?;
    thread.join(Instant::NEVER)?;
    Ok(())
}
