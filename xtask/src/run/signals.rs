//! Ctrl-C: the first ends the measurement, the second ends the program.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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

/// Watches for signals while it lives. After that they end the process at once again.
#[derive(Debug)]
pub struct Watch {
    signals: Signals,
    wish: Wish,
    /// While true, a signal ends the process.
    is_deadly: Arc<AtomicBool>,
}

impl Watch {
    /// Begins to watch.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn start() -> io::Result<Self> {
        let is_deadly = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&is_deadly))?;
        }
        Ok(Self {
            signals: Signals::new([SIGINT, SIGTERM, SIGHUP])?,
            wish: Wish::None,
            is_deadly,
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
        self.is_deadly.store(true, Relaxed);
    }
}
