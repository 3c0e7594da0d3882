use takt_kernel::sync::Queue;
use takt_kernel::thread::Builder;
use takt_kernel::time::Instant;
use takt_kernel::{Error, thread_stack};

static READINGS: Queue<u32, 4> = Queue::new();
thread_stack!(static STACK: 16384);

fn sample(nr: usize) {
    for n in 0..nr {
        // Waits while the queue is full; a message that cannot be sent comes back with the error.
        if READINGS.send(n as u32).is_err() {
            return;
        }
    }
}

pub fn example() -> Result<u32, Error> {
    let thread = Builder::new("sampler", 60)?.spawn(&STACK, sample, 10)?;
    let mut sum = 0;
    for _ in 0..10 {
        sum += READINGS.receive()?;
    }
    thread.join(Instant::NEVER)?;
    Ok(sum)
}
