//! The serial port by interrupts. COM2's transmitter is connected to its receiver.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use embedded_io::{Read, ReadReady, Write, WriteReady};
use takt_board::drivers::uart::{Counts, Inputs, Outputs, Port, Uart};
use takt_board::serial::Serial;
use takt_kernel::irq::NR_DEVICE_VECTORS;
use takt_kernel::preempt;
use takt_kernel::thread::Builder;
use takt_kernel::time::{Instant, Nanos, sleep};
use takt_kernel::{Error, thread_stack};
use takt_tests::harness::Failure;
use takt_tests::{check, check_eq, check_err, target_test};

const LOOPBACK: Outputs = Outputs {
    dtr: true,
    rts: false,
    loopback: true,
};

static COM1: Uart = Uart::com1();
static COM2: Uart = Uart::com2();

thread_stack!(static READER_STACK: 16384);
thread_stack!(static WRITER_STACK: 16384);

/// Which bytes have come through a second port, and how many.
static SUM: AtomicU32 = AtomicU32::new(0);
static NR: AtomicU32 = AtomicU32::new(0);

/// Bytes that are sent while another thread reads: many times what ring and FIFO hold.
const MANY: u32 = 3_000;

static SMALL: Uart<32, 8> = Uart::com2();

fn open<const R: usize, const T: usize>(
    uart: &'static Uart<R, T>,
    cpu: usize,
) -> Result<Port<R, T>, Failure> {
    let port = uart
        .open(115_200, cpu)
        .map_err(|error| Failure::from(error.0))?;
    port.set_outputs(LOOPBACK);
    Ok(port)
}

fn said<T>(result: Result<T, takt_board::drivers::Error>) -> Result<T, Error> {
    result.map_err(|error| error.0)
}

/// Not commutative: the order counts.
fn fold(sum: u32, byte: u8) -> u32 {
    sum.rotate_left(5) ^ u32::from(byte)
}

fn reader(_: usize) {
    let Some(mut port) = PORT.get().copied() else {
        return;
    };
    let mut bytes = [0; 7];
    while NR.load(Relaxed) < MANY {
        let Ok(nr) = port.read(&mut bytes) else {
            return;
        };
        let sum = bytes[..nr]
            .iter()
            .fold(SUM.load(Relaxed), |sum, byte| fold(sum, *byte));
        SUM.store(sum, Relaxed);
        NR.fetch_add(nr as u32, Relaxed);
    }
}

fn writer(_: usize) {
    let Some(mut port) = PORT.get().copied() else {
        return;
    };
    for at in 0..MANY {
        // Nothing tells this side that the receiver's ring or FIFO is full.
        while at - NR.load(Relaxed) >= 16 && sleep(Nanos::from_micros(10)).is_ok() {}
        if port.write_all(&[at as u8]).is_err() {
            return;
        }
    }
}

static PORT: spin::Once<Port<32, 8>> = spin::Once::new();

target_test! {
    /// Whoever has the port without interrupts, as messages of the boot do, leaves those of an open one on.
    fn uart_beside_serial(Alone) {
        let mut port = open(&COM1, 0)?;
        let _ = Serial::com1();
        let mut bytes = [0; 4];
        let sent = port.write_all(b"a");
        let read = port.read_until(&mut bytes, Instant::after(Nanos::from_millis(10)));
        port.set_outputs(Outputs { loopback: false, ..LOOPBACK });
        check_eq!((sent, said(read), bytes[0]), (Ok(()), Ok(1), b'a'));
        Ok(())
    }

    /// What is sent is received, by threads that wait and without: as embedded-io has it. Modem lines, counts of what is lost.
    fn uart(Alone) {
        check_err!(said(COM2.open(31_250, 0)), InvalidArgument);
        // Each gives its vector back: there are not so many.
        for _ in 0..=NR_DEVICE_VECTORS {
            check_err!(said(COM2.open(115_200, 7)), InvalidArgument);
        }
        let mut port = open(&COM2, 0)?;
        check_err!(said(COM2.open(115_200, 0)), InvalidState);
        check_eq!(port.line().map(|line| line.irq().name()), Some("com2"));
        check_eq!(port.inputs(), Inputs { cts: false, dsr: true, ri: false, dcd: true });

        let mut bytes = [0; 32];
        check_eq!((port.read_ready(), port.write_ready()), (Ok(false), Ok(true)));
        check_eq!((port.read(&mut []), port.write(&[])), (Ok(0), Ok(0)));
        check_err!(said(port.read_until(&mut bytes, Instant::after(Nanos::from_millis(1)))), TimedOut);
        let guard = preempt::disable();
        let refused = said(port.read(&mut bytes));
        drop(guard);
        check_err!(refused, WrongContext);

        check_eq!(port.write_all(b"seventeen letters"), Ok(()));
        check_eq!(port.flush(), Ok(()));
        check_eq!(port.read_ready(), Ok(true));
        check_eq!(port.read_exact(&mut bytes[..17]).is_ok(), true);
        check_eq!(&bytes[..17], b"seventeen letters");
        check_eq!(port.counts(), Counts::default());

        // More than ring and FIFO have room for: the first ones are kept.
        for at in 0..=299u16 {
            check_eq!(port.write_all(&[at as u8]), Ok(()));
        }
        check_eq!(port.flush(), Ok(()));
        // The last ones come by the receiver's time-out.
        sleep(Nanos::from_millis(1))?;
        let mut expected = 0u16;
        while port.read_ready() == Ok(true) {
            let nr = said(port.read(&mut bytes))?;
            for byte in &bytes[..nr] {
                check_eq!(*byte, expected as u8);
                expected += 1;
            }
        }
        let lost = port.counts().overruns;
        check_eq!(expected, 256 + 16);
        check!((1..=28).contains(&lost), "{lost}");
        // And it goes on.
        check_eq!(port.write_all(b"more"), Ok(()));
        check_eq!(port.read_exact(&mut bytes[..4]).is_ok(), true);
        check_eq!(&bytes[..4], b"more");
        Ok(())
    }

    /// Threads on two CPUs send and receive, and the handler runs on either.
    fn uart_on_two_cpus(TwoCpus) {
        check_eq!(takt_board::smp::start(2), 2);
        let port = open(&SMALL, 1)?;
        PORT.call_once(|| port);
        let reader = Builder::new("reader", 60)?.spawn(&READER_STACK, reader, 0)?;
        let writer = Builder::new("writer", 60)?.cpu(1).spawn(&WRITER_STACK, writer, 0)?;
        let limit = Instant::after(Nanos::from_secs(20));
        for cpu in [1, 0].into_iter().cycle() {
            if NR.load(Relaxed) >= MANY || Instant::now() > limit {
                break;
            }
            if let Some(line) = port.line() {
                line.set_cpu(cpu)?;
            }
            sleep(Nanos::from_millis(1))?;
        }
        check_eq!(port.counts(), Counts::default());
        check_eq!(NR.load(Relaxed), MANY);
        writer.join(limit)?;
        reader.join(limit)?;
        check_eq!(SUM.load(Relaxed), (0..MANY).fold(0, |sum, at| fold(sum, at as u8)));
        Ok(())
    }
}
