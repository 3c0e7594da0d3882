use takt_kernel::sync::{EventFlags, Mode};
use takt_kernel::thread::Builder;
use takt_kernel::time::{Instant, Nanos};
use takt_kernel::{Error, thread_stack};

const LINK: u32 = 1 << 0;
const CLOCK: u32 = 1 << 1;

static UP: EventFlags = EventFlags::new(0);
thread_stack!(static STACK: 16384);

fn bring_up(_: usize) {
    UP.set(LINK);
    UP.set(CLOCK);
}

pub fn example() -> Result<u32, Error> {
    let thread = Builder::new("starter", 40)?.spawn(&STACK, bring_up, 0)?;
    // Until both are set; ten milliseconds at most.
    let flags = UP.wait(LINK | CLOCK, Mode::All, Instant::after(Nanos::from_millis(10)))?;
    thread.join(Instant::NEVER)?;
    Ok(flags)
}
