//! A boot that only shows that booting works: the guest exits at once.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::qemu::{Accel, GuestExit, Machine, Process};
use takt_base::scratch;
use takt_guest::Ram;

/// How long a probe may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Boots `image` under `accel` with `probe=1`.
///
/// # Errors
///
/// What went wrong, as half a sentence.
pub fn probe(image: &Path, accel: Accel) -> Result<(), String> {
    let dir =
        scratch::folder().map_err(|error| format!("no place for a probe boot ({error:#})"))?;
    boot(image, accel, dir.path())
}

fn boot(image: &Path, accel: Accel, dir: &Path) -> Result<(), String> {
    let ram = Ram::create(dir).map_err(|error| format!("{error:#}"))?;
    let machine = Machine {
        image: image.to_owned(),
        ram: ram.path().to_owned(),
        dir: dir.to_owned(),
        cmdline: "probe=1".into(),
        smp: 1,
        accel,
    };
    let mut process =
        Process::start(&machine, &dir.join("messages")).map_err(|error| format!("{error:#}"))?;
    let started = Instant::now();
    while started.elapsed() < LIMIT {
        match process.try_wait() {
            Ok(Some(status)) => {
                return match GuestExit::from(status) {
                    GuestExit::Passed => Ok(()),
                    other => Err(format!("the probe boot failed: {other}")),
                };
            }
            Ok(None) => thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(format!("the probe boot cannot be watched ({error})")),
        }
    }
    Err(format!(
        "the probe boot did not end within {} s",
        LIMIT.as_secs()
    ))
}
