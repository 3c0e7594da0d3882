//! Devices behind the traits of embedded-hal and embedded-io, used as a driver from that ecosystem uses them.

use embedded_hal::delay::DelayNs;
use embedded_hal::digital::{OutputPin, StatefulOutputPin};
use embedded_io::{Read, ReadReady, Write, WriteReady};
use takt_board::parallel::Pin;
use takt_board::serial::Serial;
use takt_kernel::machine::Port;
use takt_kernel::preempt;
use takt_kernel::time::{Cycles, Delay, Expiry, Instant, Timer};
use takt_tests::harness::Failure;
use takt_tests::worker::burn;
use takt_tests::{check, check_eq, target_test};

/// How long `delay` takes to delay for so many nanoseconds.
fn delayed(delay: &mut impl DelayNs, ns: u32) -> u64 {
    let before = Instant::now();
    delay.delay_ns(ns);
    Instant::now().cycles() - before.cycles()
}

fn say(port: &mut impl Write, number: u32) -> Result<(), Failure> {
    writeln!(port, "embedded-io says {number}")
        .map_err(|_| Failure::new(format_args!("the port took nothing")))?;
    port.flush()
        .map_err(|_| Failure::new(format_args!("the port did not flush")))
}

fn pulse<P: OutputPin>(pin: &mut P) -> Result<(), P::Error> {
    pin.set_high()?;
    pin.set_low()?;
    pin.set_high()
}

/// What the parallel port's data register holds.
fn data_register() -> u8 {
    // SAFETY: reading back what was written has no effect.
    unsafe { Port::<u8>::new(0x378).read() }
}

target_test! {
    /// Short delays spin, long ones sleep; both last as long as they should and not much longer.
    fn delay_ns(Shared) {
        for ns in [1, 100, 1_500, 2_000, 10_000, 1_000_000] {
            let took = delayed(&mut Delay, ns);
            check!((u64::from(ns)..u64::from(ns) + 600).contains(&took), "{ns} ns took {took} ns");
        }
        let before = Instant::now();
        Delay.delay_ms(20);
        Delay.delay_us(30);
        check!((20_030_000..20_032_000).contains(&(Instant::now().cycles() - before.cycles())));
        // Where sleeping is not allowed it spins.
        let guard = preempt::disable();
        check!((50_000..50_600).contains(&delayed(&mut Delay, 50_000)));
        drop(guard);
        Ok(())
    }

    /// What is written to the serial port by embedded-io's trait is seen on the host.
    fn serial_port(Prints(&["embedded-io says 1234", "embedded-io says 5678"])) {
        let mut port = Serial::com1();
        check!(port.write_ready() == Ok(true));
        check!(port.read_ready() == Ok(false));
        say(&mut port, 1234)?;
        say(&mut port, 5678)
    }

    /// What the serial port receives is read by embedded-io's trait; the UART sends to itself here.
    fn serial_port_reads(Shared) {
        let mut port = Serial::com1();
        let modem_control = |value: u8| {
            // SAFETY: the UART's modem control register; bit 4 connects its output to its input.
            unsafe { Port::<u8>::new(0x3fc).write(value) };
        };
        modem_control(0x13);
        let mut bytes = [0u8; 8];
        let result = port.write_all(b"abc").and_then(|()| port.read(&mut bytes));
        let is_empty = port.read_ready();
        modem_control(0x03);
        check_eq!(result, Ok(3));
        check_eq!(&bytes[..3], b"abc");
        check_eq!(is_empty, Ok(false));
        check_eq!(port.read(&mut []), Ok(0));
        Ok(())
    }

    /// A pin set in an interrupt stays set, wherever in the setting of another pin the interrupt comes.
    fn pins_of_threads_and_interrupts(Shared) {
        fn set_seven(_: usize, _: Expiry) {
            if let Some(mut seven) = Pin::new(7) {
                let Ok(()) = seven.set_high();
            }
        }
        let (Some(mut zero), Some(mut seven)) = (Pin::new(0), Pin::new(7)) else {
            return Err(Failure::new(format_args!("no pins")));
        };
        let timer = Timer::new(set_seven, 0)?;
        for offset in 0..300 {
            let Ok(()) = seven.set_low();
            timer.arm(Instant::now() + Cycles::new(offset));
            let Ok(()) = pulse(&mut zero);
            burn(1_000);
            check_eq!(data_register(), 0x81);
        }
        let (Ok(()), Ok(())) = (zero.set_low(), seven.set_low());
        Ok(())
    }

    /// The pins of the parallel port show in its data register, each on its own.
    fn parallel_port(Shared) {
        let (Some(mut zero), Some(mut seven)) = (Pin::new(0), Pin::new(7)) else {
            return Err(Failure::new(format_args!("no pins")));
        };
        check!(Pin::new(8).is_none());
        let Ok(()) = pulse(&mut zero);
        check_eq!(data_register(), 0x01);
        let Ok(()) = pulse(&mut seven);
        check_eq!(data_register(), 0x81);
        let Ok(()) = zero.set_low();
        check_eq!(data_register(), 0x80);
        check!(seven.is_set_high() == Ok(true) && zero.is_set_low() == Ok(true));
        let Ok(()) = seven.toggle();
        check_eq!(data_register(), 0);
        Ok(())
    }
}
