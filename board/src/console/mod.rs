//! What a person at the machine sees: the boot, the latencies live, the end and faults, on the screen and on the serial port.
//!
//! It is on where Multiboot2 booted the image, or the command line says `console=screen,serial` (or one of them, or `off`).
//! What is printed before threads run is printed at once. After that all is printed by one thread of low priority, which
//! waits by sleeping while the serial port sends; so nothing that is measured waits for it, but for the timer that wakes it.
//! A fault's report is printed by whoever has it.
//!
//! What is left of it in a measurement is that thread's timer, ten times a second with a look at the serial port and the keyboard's,
//! three accesses of a microsecond or so during which the CPU takes no interrupt; and the memory of the screen, whose writes the CPU
//! has to get rid of. `console=off` has none of it.

mod keys;
mod screen;
mod table;

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use embedded_io::WriteReady;
use heapless::String;
use spin::Once;
use takt_kernel::machine::{self, Window};
use takt_kernel::sync::SetOnce;
use takt_kernel::thread::{Builder, Thread};
use takt_kernel::time::{self, Instant, Nanos};
use takt_kernel::{Error, thread_stack};
use takt_timerlat::stats::Status;

use crate::cmdline::CommandLine;
use crate::loader::{Framebuffer, Kind, Protocol};
use crate::serial::Serial;
use screen::{COLUMNS, Screen, Style};

/// Above the loads, which would not let it run, and below everything else.
const PRIORITY: u8 = 5;
/// Between two looks at the keys.
const LOOK: Nanos = Nanos::from_millis(100);
/// Looks between two tables.
const LOOKS: u32 = 10;
/// Bytes that a 16550 takes at a time, and how long it then sends at 115,200 baud.
const FIFO: usize = 16;
const FIFO_TIME: Nanos = Nanos::from_micros(1_500);
/// How often that time is waited for a port that does not send.
const PATIENCE: u32 = 20;
/// How long the end waits for the console, should it have much to print.
const LAST: Nanos = Nanos::from_secs(5);

thread_stack!(static STACK: 8192);

struct Console {
    screen: Option<Screen>,
    has_serial: bool,
}

static CONSOLE: Once<Console> = Once::new();
/// Lines of the table that is there.
static TABLE: AtomicUsize = AtomicUsize::new(0);
/// `q` was pressed, and the workload has not been told yet.
static IS_QUIT: AtomicBool = AtomicBool::new(false);
static IS_OVER: AtomicBool = AtomicBool::new(false);
static WATCHED: SetOnce<(&'static Status, Thread)> = SetOnce::new();

/// Onto the screen's memory.
static WINDOW: Window = Window::new();

/// Whether it prints on COM1.
pub(crate) fn has_port() -> bool {
    CONSOLE.get().is_some_and(|console| console.has_serial)
}

/// Turns it on, if it is to be.
///
/// # Safety
/// Once, on the boot CPU, with the final page tables in force and before other CPUs run. The framebuffer is the loader's.
pub(crate) unsafe fn start(line: &CommandLine<'_>, by: Protocol, on: Option<Framebuffer>) {
    let default = match by {
        Protocol::Multiboot2 => "screen,serial",
        Protocol::Pvh => "off",
    };
    let wanted = line.get("console").unwrap_or(default);
    let has = |name: &str| wanted.split(',').any(|word| word == name);
    // SAFETY: the caller's duty.
    let screen = on
        .filter(|_| has("screen"))
        .and_then(|on| unsafe { open(&on) });
    // Frames are no text's neighbours.
    let is_capture = line.get("capture").is_some_and(|to| to.starts_with("com1"));
    let has_serial = has("serial") && !is_capture;
    if screen.is_some() || has_serial {
        CONSOLE.call_once(|| Console { screen, has_serial });
    }
}

/// The screen, with its memory mapped.
///
/// # Safety
/// As [`start`].
unsafe fn open(on: &Framebuffer) -> Option<Screen> {
    const GIGABYTE: u64 = 1 << 30;
    let len = Screen::extent(on)? as u64;
    if on.address % GIGABYTE + len > GIGABYTE || on.address >= 1 << 52 {
        return None;
    }
    // SAFETY: the caller's duty; the table is used for nothing else.
    let base = unsafe { machine::map_window(&WINDOW, on.address) };
    if on.kind == Kind::Text {
        // SAFETY: the loader says so.
        unsafe { screen::hide_cursor() };
    }
    // SAFETY: all of it lies in the gigabyte that was mapped.
    unsafe { Screen::new(on, base) }
}

/// Prints, where the console is on.
///
/// # Context
/// One that writes at a time: the boot context, then the thread that [`watch`]es and whoever it is waited for by.
pub fn print(text: fmt::Arguments<'_>) {
    if let Some(console) = CONSOLE.get() {
        let _ = (&mut &*console).write_fmt(text);
    }
}

/// Prints what a fault's report says, on the screen only.
pub(crate) fn print_emergency(text: &[u8]) {
    if let Some(screen) = CONSOLE.get().and_then(|console| console.screen.as_ref()) {
        screen.write(text, Style::Fault);
    }
}

impl Write for &Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if let Some(screen) = &self.screen {
            screen.write(text.as_bytes(), Style::Normal);
        }
        if self.has_serial {
            for line in text.split_inclusive('\n') {
                send(line.trim_end_matches('\n').as_bytes());
                if line.ends_with('\n') {
                    send(b"\r\n");
                }
            }
        }
        Ok(())
    }
}

/// Sends bytes without keeping others from running.
fn send(bytes: &[u8]) {
    for piece in bytes.chunks(FIFO) {
        let mut port = Serial::com1();
        let mut left = PATIENCE;
        while port.write_ready() != Ok(true) && left > 0 {
            left -= 1;
            // Before threads run there is nobody to give way to.
            if time::sleep(FIFO_TIME).is_err() {
                break;
            }
        }
        port.write_bytes(piece);
    }
}

/// Shows the latencies in `status` from now on, and looks for `q`.
///
/// # Errors
/// What creating a thread may fail with.
pub fn watch(status: &'static Status) -> Result<(), Error> {
    if CONSOLE.get().is_none() {
        return Ok(());
    }
    let thread = Builder::new("console", PRIORITY)?.create(&STACK, run, 0)?;
    WATCHED.set((status, thread));
    thread.start()
}

/// The command that a key stands for: `s`, stop, once for each `q`. To be asked instead of the host.
pub fn command() -> Option<u8> {
    // Nothing is written where nothing was pressed.
    (IS_QUIT.load(Relaxed) && IS_QUIT.swap(false, Relaxed)).then_some(b's')
}

/// Shows the table as it is in the end. From then on the caller may print.
pub fn finish() {
    let Some((_, thread)) = WATCHED.get() else {
        return;
    };
    IS_OVER.store(true, Relaxed);
    // One that does not end in time is not waited for any longer: the results matter more.
    let _ = thread.join(Instant::after(LAST));
}

fn run(_: usize) {
    let (Some(console), Some((status, _))) = (CONSOLE.get(), WATCHED.get()) else {
        return;
    };
    for look in 0_u32.. {
        let is_over = IS_OVER.load(Relaxed);
        if keys::is_quit(console.has_serial) {
            IS_QUIT.store(true, Relaxed);
        }
        if look.is_multiple_of(LOOKS) || is_over {
            console.show(status);
        }
        if is_over || time::sleep(LOOK).is_err() {
            return;
        }
    }
}

impl Console {
    /// The table, in the place of the one before.
    fn show(&self, status: &Status) {
        let mut text = String::<{ table::MAX_LINES * COLUMNS }>::new();
        // Too long a line would have to have too large a figure.
        let _ = table::write(status, &mut text);
        let before = TABLE.swap(text.lines().count(), Relaxed);
        if let Some(screen) = &self.screen {
            screen.up(before);
            screen.write(text.as_bytes(), Style::Normal);
        }
        if self.has_serial {
            let mut up = String::<8>::new();
            if before > 0 && write!(up, "\x1b[{before}A").is_ok() {
                send(up.as_bytes());
            }
            for line in text.lines() {
                send(line.as_bytes());
                send(b"\x1b[K\r\n");
            }
        }
    }
}
