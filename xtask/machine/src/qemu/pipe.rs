//! Reading what QEMU writes while it runs, through a pipe with a name: nothing of it lies on a disk.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

const TICK: Duration = Duration::from_millis(5);

/// Makes the pipe, has `read` read from it while `boot` runs a QEMU that writes to it, and gives what both say.
///
/// # Errors
///
/// If the pipe cannot be made, or what either says; what `boot` says comes first.
pub fn read_along<R: Send, B>(
    path: &Path,
    read: impl FnOnce(File) -> Result<R> + Send,
    boot: impl FnOnce() -> Result<B>,
) -> Result<(R, B)> {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .with_context(|| format!("cannot make the pipe {}", path.display()))?;
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            #[expect(clippy::disallowed_methods, reason = "it is a pipe, and waited for")]
            let file = File::open(path).context("cannot read what QEMU executes")?;
            read(file)
        });
        let booted = boot();
        // A QEMU that never opened it: the reader waits for someone who does, as soon as it comes to that.
        while !reading.is_finished() {
            let _ = OpenOptions::new()
                .write(true)
                .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
                .open(path);
            thread::sleep(TICK);
        }
        let read = reading
            .join()
            .map_err(|_| anyhow!("the reader of what QEMU executes died"))?;
        let booted = booted?;
        Ok((read?, booted))
    })
}
