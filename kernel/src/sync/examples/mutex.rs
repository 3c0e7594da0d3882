use takt_kernel::sync::Mutex;
use takt_kernel::thread::Builder;
use takt_kernel::time::Instant;
use takt_kernel::{Error, thread_stack};

static TOTAL: Mutex<usize> = Mutex::new(0);
thread_stack!(static STACK: 16384);

fn add(number: usize) {
    if let Ok(mut total) = TOTAL.lock() {
        *total += number;
    } // Unlocked here.
}

pub fn example() -> Result<usize, Error> {
    let thread = Builder::new("adder", 60)?.spawn(&STACK, add, 40)?;
    add(2);
    thread.join(Instant::NEVER)?;
    Ok(*TOTAL.lock()?)
}
