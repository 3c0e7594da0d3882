//! The machine's watchdog, which a task feeds.

use takt_kernel::task;

use crate::drivers::watchdog::{I6300esb, Tco, Watchdog};
use crate::lock::IrqLock;

enum Held {
    ChipSets(Tco),
    Pci(I6300esb),
}

// SAFETY: registers that every CPU reaches, by whoever has the value.
unsafe impl Send for Held {}

impl Held {
    fn watchdog(&mut self) -> &mut dyn Watchdog {
        match self {
            Self::ChipSets(it) => it,
            Self::Pci(it) => it,
        }
    }

    fn start(mut self, ms: u32) -> Option<Self> {
        let ms = self.watchdog().start(ms).ok()?;
        let whose = match self {
            Self::ChipSets(_) => "chip set",
            Self::Pci(_) => "6300ESB",
        };
        defmt::info!(
            "the watchdog of the {=str} bites after {=u32} ms",
            whose,
            ms
        );
        Some(self)
    }
}

static WATCHDOG: IrqLock<Option<Held>> = IrqLock::new(None);

/// Starts a watchdog that bites after so many milliseconds, or a little later, unless the task of this number feeds it. `None` if
/// there is none that may reset the machine, or can wait that long.
///
/// # Context
/// Threads.
pub(super) fn start(number: usize, ms: u32) -> Option<()> {
    let chip_sets = Tco::take().and_then(|it| Held::ChipSets(it).start(ms));
    let pci = || I6300esb::take().and_then(|it| Held::Pci(it).start(ms));
    let held = chip_sets.or_else(pci)?;
    WATCHDOG.with(|it| *it = Some(held));
    // SAFETY: it was started here, and `feed` writes to its registers.
    unsafe { task::set_machine_watchdog(number, feed) };
    Some(())
}

/// By the task's thread alone.
fn feed() {
    WATCHDOG.with(|it| {
        if let Some(held) = it {
            held.watchdog().feed();
        }
    });
}

/// The tasks have ended: it bites no more, if it lets itself be stopped.
pub(super) fn stop() {
    if let Some(mut held) = WATCHDOG.with(Option::take) {
        let _ = held.watchdog().stop();
    }
}
