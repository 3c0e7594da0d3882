//! Interrupts of devices that tasks have. COM2's comes whenever the transmitter's is switched on, which has nothing to send.

use takt_abi::Error;
use takt_kernel::machine::Port;
use takt_kernel::task::Ended;
use takt_kernel::time::{Instant, Nanos, sleep};
use takt_tests::harness::{Failure, Outcome, print};
use takt_tests::{check, check_eq, note, target_test};

use crate::{CLIENT, KEEPER, start};

/// The keeper in another role.
const DRIVER: (usize, u64) = (KEEPER.0, 8);

/// Switches the UART's interrupts on or off.
fn set_interrupts(value: u8) {
    // SAFETY: COM2's interrupt register, which nobody else uses while these tests run.
    unsafe { Port::<u8>::new(0x2f9).write(value) };
}

/// Has the UART interrupt once, and lets its driver run.
fn interrupt() -> Outcome {
    set_interrupts(0);
    set_interrupts(2);
    Ok(sleep(Nanos::from_micros(50))?)
}

/// Says something to the driver; gives what it answers.
fn tell(word: u32, bits: u32) -> Result<u64, Failure> {
    match start(CLIENT, 15 | word << 8 | bits << 16)?.end()? {
        Ended::Exited(code) => Ok(code),
        Ended::Stopped(fault) => Err(Failure::new(format_args!("{fault}"))),
    }
}

/// How often it was interrupted.
const HOW_OFTEN: u32 = 0;
const ACKNOWLEDGE: u32 = 1;
const ACKNOWLEDGE_THESE: u32 = 2;
const DIE: u32 = 3;
const END: u32 = 4;

/// An interrupt comes, and then none until it is acknowledged.
fn is_masked_until_acknowledged() -> Outcome {
    interrupt()?;
    check_eq!(tell(HOW_OFTEN, 0)?, 0);
    tell(ACKNOWLEDGE, 0)?;
    // One that came before may come now.
    sleep(Nanos::from_micros(50))?;
    tell(ACKNOWLEDGE, 0)?;
    let before = tell(HOW_OFTEN, 0)?;
    for _ in 0..3 {
        interrupt()?;
        check_eq!(tell(HOW_OFTEN, 0)?, before + 1);
    }
    Ok(())
}

target_test! {
    /// A line is masked at the beginning of a life, from an interrupt until it is acknowledged, and once the driver is dead until its next
    /// life acknowledges it.
    fn a_line_is_masked_until_acknowledged(Alone) {
        for _ in 0..2 {
            let driver = start(DRIVER, 0)?;
            is_masked_until_acknowledged()?;
            tell(ACKNOWLEDGE, 0)?;
            tell(DIE, 0)?;
            check!(matches!(driver.end()?, Ended::Stopped(_)));
            interrupt()?;
        }
        let driver = start(DRIVER, 0)?;
        is_masked_until_acknowledged()?;
        tell(END, 0)?;
        driver.succeeds()?;
        set_interrupts(0);
        Ok(())
    }

    /// Who has no such interrupt cannot acknowledge it.
    fn others_interrupts_are_not_acknowledged(Alone) {
        let driver = start(DRIVER, 0)?;
        check_eq!(tell(ACKNOWLEDGE_THESE, 2)?, Error::NoHandle as u64);
        check_eq!(tell(ACKNOWLEDGE_THESE, 3)?, Error::NoHandle as u64);
        interrupt()?;
        check_eq!(tell(HOW_OFTEN, 0)?, 0);
        tell(END, 0)?;
        driver.succeeds()?;
        set_interrupts(0);
        Ok(())
    }

    /// Exact instructions from a device's interrupt, which comes upon a thread of the kernel, to its driver, which waits for it and has
    /// acknowledged it.
    fn interrupts_reach_drivers(Alone) {
        let driver = start(DRIVER, 1)?;
        set_interrupts(0);
        sleep(Nanos::from_micros(100))?;
        let before = Instant::now().cycles();
        set_interrupts(2);
        let at = tell(HOW_OFTEN, 0)?;
        driver.succeeds()?;
        set_interrupts(0);
        // The driver's own: three instructions and the reading.
        let took = at - before - 4;
        note!("{took} instructions");
        check!(took <= 260, "{took} instructions");
        print(format_args!("bench task-interrupt insn {took}\n"));
        Ok(())
    }
}
