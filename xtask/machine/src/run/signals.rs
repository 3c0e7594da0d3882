//! Ctrl-C: the first ends the measurement, the second ends the program.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Go on.
    None,
    /// End the measurement and report (first SIGINT).
    Stop,
    /// End everything, now (second SIGINT, SIGTERM, SIGHUP).
    Quit,
}

/// The error of a user who wanted out, in these words. The program ends with [`EXIT_INTERRUPTED`](takt_base::EXIT_INTERRUPTED).
#[derive(Debug)]
pub struct Interrupted(pub &'static str);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Interrupted {}

/// Watches for signals while it lives. After that they end the process at once again.
#[derive(Debug)]
pub struct Watch {
    signals: Signals,
    wish: Wish,
}

/// While true, a signal ends the process. One for all that watch one after the other: what one of them has registered
/// stays, and must not end the process while the next one watches.
static IS_DEADLY: OnceLock<Arc<AtomicBool>> = OnceLock::new();

impl Watch {
    /// Begins to watch.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn start() -> io::Result<Self> {
        let mut is_new = false;
        let is_deadly = IS_DEADLY.get_or_init(|| {
            is_new = true;
            Arc::default()
        });
        is_deadly.store(false, Relaxed);
        if is_new {
            for signal in [SIGINT, SIGTERM, SIGHUP] {
                flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(is_deadly))?;
            }
        }
        Ok(Self {
            signals: Signals::new([SIGINT, SIGTERM, SIGHUP])?,
            wish: Wish::None,
        })
    }

    /// What the user wants by now.
    pub fn wish(&mut self) -> Wish {
        for signal in self.signals.pending() {
            self.wish = match (signal, self.wish) {
                (SIGINT, Wish::None) => Wish::Stop,
                _ => Wish::Quit,
            };
        }
        self.wish
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(is_deadly) = IS_DEADLY.get() {
            is_deadly.store(true, Relaxed);
        }
    }
}
