//! Virtio devices. The second console's other end is COM2's.

use embedded_io::{Read, ReadReady, Write, WriteReady};
use rand_core::TryRng;
use takt_board::capture;
use takt_board::drivers::Error as DriverError;
use takt_board::drivers::uart::{Counts, Uart};
use takt_board::drivers::virtio::{CONSOLE, Console, ENTROPY, Entropy};
use takt_board::pci::{self, Function};
use takt_kernel::irq::NR_DEVICE_VECTORS;
use takt_kernel::time::{Instant, Nanos};
use takt_kernel::{Error, preempt};
use takt_tests::harness::Failure;
use takt_tests::{check, check_eq, check_err, target_test};

static COM2: Uart<512> = Uart::com2();
static VIRTIO: Console = Console::new();
static RNG: Entropy = Entropy::new();

fn said<T>(result: Result<T, DriverError>) -> Result<T, Error> {
    result.map_err(|error| error.0)
}

fn function(id: (u16, u16)) -> Result<Function, Failure> {
    let found = pci::functions().filter(|function| function.id() == id);
    let found = found.last();
    found.ok_or_else(|| Failure::new(format_args!("there is no {id:x?}")))
}

/// Sends a text and reads it at the other end.
fn passes(from: &mut impl Write, to: &mut impl Read, text: &[u8]) -> Result<(), Failure> {
    let failed = |what| Failure::new(format_args!("cannot {what}"));
    from.write_all(text).map_err(|_| failed("write"))?;
    from.flush().map_err(|_| failed("flush"))?;
    let mut bytes = [0; 400];
    let bytes = &mut bytes[..text.len()];
    to.read_exact(bytes).map_err(|_| failed("read"))?;
    check!(bytes == text, "{}", bytes.escape_ascii());
    Ok(())
}

target_test! {
    /// What is sent at one end of a line comes at the other, both ways.
    fn console_and_uart(Alone) {
        check_err!(said(VIRTIO.open(function(ENTROPY)?, 0)), InvalidArgument);
        // Each gives its vector back: there are not so many.
        for _ in 0..=NR_DEVICE_VECTORS {
            check_err!(said(VIRTIO.open(function(CONSOLE)?, 7)), InvalidArgument);
        }
        let last = function(CONSOLE)?;
        let mut console = said(VIRTIO.open(last, 0))?;
        check_err!(said(VIRTIO.open(function(CONSOLE)?, 0)), InvalidState);
        static OTHER: Console = Console::new();
        check_err!(said(OTHER.open(function(CONSOLE)?, 0)), InvalidState);
        // Nor is it the capture's, which would reset it.
        static FIRST: Console = Console::new();
        if let Some(first) = Function::find(CONSOLE.0, CONSOLE.1).filter(|it| *it != last) {
            said(FIRST.open(first, 0))?;
        }
        check!(!capture::start());
        let mut com2 = said(COM2.open(115_200, 0))?;

        check_eq!((console.read_ready(), console.write_ready()), (Ok(false), Ok(true)));
        check_eq!((console.read(&mut []), console.write(&[])), (Ok(0), Ok(0)));
        let mut bytes = [0; 8];
        check_err!(said(console.read_until(&mut bytes, Instant::after(Nanos::from_millis(1)))), TimedOut);
        let guard = preempt::disable();
        let refused = said(console.read(&mut bytes));
        drop(guard);
        check_err!(refused, WrongContext);

        // In this order: what came to COM2 says that it is connected.
        passes(&mut console, &mut com2, b"a")?;
        passes(&mut com2, &mut console, b"b")?;
        // More than the buffers of a direction hold.
        let mut text = [0; 400];
        for (at, byte) in text.iter_mut().enumerate() {
            *byte = (at * 7) as u8;
        }
        for _ in 0..3 {
            passes(&mut console, &mut com2, &text)?;
            // Nobody reads before all is sent, and the host keeps some 270 single bytes in between.
            passes(&mut com2, &mut console, &text[..200])?;
        }
        check_eq!(console.read_ready(), Ok(false));
        check_eq!(com2.counts(), Counts::default());
        Ok(())
    }

    /// Random bytes come, other ones each time, as many as were asked for.
    fn entropy(Alone) {
        check_err!(said(RNG.open(function(CONSOLE)?, 0)), InvalidArgument);
        let mut rng = said(RNG.open(function(ENTROPY)?, 0))?;
        let mut bytes = [[0; 150]; 2];
        for bytes in &mut bytes {
            said(rng.try_fill_bytes(&mut bytes[..149]))?;
            // Each of 10 is zero once in 2^80.
            check!(bytes[..149].chunks(10).all(|some| some.iter().any(|byte| *byte != 0)));
            check_eq!(bytes[149], 0);
        }
        check!(bytes[0] != bytes[1]);
        check!(said(rng.try_next_u64())? != said(rng.try_next_u64())?);
        Ok(())
    }
}
