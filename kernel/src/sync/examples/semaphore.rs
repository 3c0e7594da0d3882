use takt_kernel::sync::Semaphore;
use takt_kernel::thread::Builder;
use takt_kernel::time::{Instant, sleep_nanos};
use takt_kernel::{Error, thread_stack};

// Nothing is there yet; two at most.
static READY: Semaphore = Semaphore::new(0, 2);
thread_stack!(static STACK: 16384);

fn produce(_: usize) {
    let _ = sleep_nanos(50_000);
    // Interrupt handlers may give as well.
    let _ = READY.give();
}

pub fn example() -> Result<(), Error> {
    let thread = Builder::new("producer", 60)?.spawn(&STACK, produce, 0)?;
    // A millisecond at most: a time-out is an error.
    READY.take_until(Instant::after_nanos(1_000_000))?;
    thread.join(Instant::NEVER)?;
    Ok(())
}
