use takt_kernel::sync::{Condvar, Mutex};
use takt_kernel::thread::Builder;
use takt_kernel::time::Instant;
use takt_kernel::{Error, thread_stack};

static LEVEL: Mutex<u32> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();
thread_stack!(static STACK: 16384);

fn fill(_: usize) {
    for _ in 0..3 {
        if let Ok(mut level) = LEVEL.lock() {
            *level += 1;
        }
        CHANGED.notify_one();
    }
}

pub fn example() -> Result<u32, Error> {
    let thread = Builder::new("filler", 40)?.spawn(&STACK, fill, 0)?;
    let mut level = LEVEL.lock()?;
    while *level < 3 {
        // The mutex is free while this waits, and held again behind it.
        CHANGED.wait(&mut level)?;
    }
    let found = *level;
    drop(level);
    thread.join(Instant::NEVER)?;
    Ok(found)
}
