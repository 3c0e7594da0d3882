//! Watchdogs, which raise an NMI here instead of resetting the machine.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_board::drivers::watchdog::{I6300esb, Tco, Watchdog};
use takt_kernel::irq::{self, Nmi};
use takt_kernel::time::{Nanos, sleep};
use takt_tests::harness::Failure;
use takt_tests::{check, check_eq, check_err, target_test};

static NR: AtomicU32 = AtomicU32::new(0);

fn bitten(_: &Nmi) {
    NR.fetch_add(1, Relaxed);
}

/// How often it has bitten when so much of the time has passed.
fn bites(timeout_ms: u32, percent: u32) -> Result<u32, Failure> {
    sleep(Nanos::new(
        u64::from(timeout_ms) * 10_000 * u64::from(percent),
    ))?;
    Ok(NR.swap(0, Relaxed))
}

fn bites_unless_fed(watchdog: Option<impl Watchdog>, longest_ms: u32) -> Result<(), Failure> {
    let Some(mut watchdog) = watchdog else {
        return Err(Failure::new(format_args!("there is none")));
    };
    // SAFETY: it counts.
    unsafe { irq::set_nmi_handler(bitten) };
    check!(!watchdog.has_bitten());
    let longest = watchdog.start(longest_ms)?;
    check!(longest - longest_ms < 2, "{longest} ms");
    watchdog.stop()?;
    check_err!(watchdog.start(longest_ms + 1), InvalidArgument);

    let timeout = watchdog.start(6_000)?;
    check!((6_000..6_003).contains(&timeout), "{timeout} ms");
    for _ in 0..3 {
        check_eq!(bites(timeout, 90)?, 0);
        watchdog.feed();
    }
    watchdog.stop()?;
    check_eq!(bites(timeout, 300)?, 0);
    watchdog.start(6_000)?;
    check_eq!(bites(timeout, 95)?, 0);
    check_eq!(bites(timeout, 10)?, 1);
    Ok(())
}

target_test! {
    /// The chip set's watchdog bites when it was not fed for as long as was said, and only then.
    fn tco(Slow) {
        bites_unless_fed(Tco::take(), 1_227_600)?;
        check!(Tco::take().is_none());
        Ok(())
    }

    /// The same of PCI's.
    fn i6300esb(Slow) {
        // All units that there are: 0xf_ffff in each stage.
        bites_unless_fed(I6300esb::take(), 2_082_404)?;
        check!(I6300esb::take().is_none());
        Ok(())
    }
}
