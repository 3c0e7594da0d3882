//! Sweeps, as `cargo xtask latency-sweep` asks for them on the command line.
//!
//! An application that marks a stretch with [`sweep_begin!`](takt_timerlat::sweep_begin) and
//! [`sweep_end!`](takt_timerlat::sweep_end) calls [`start`] at its beginning; without the words on the command line that
//! has no effect. The words are those that the image was booted with. [`start`] takes no
//! others: an application could have any address called by them.
//!
//! | word | meaning |
//! |---|---|
//! | `sweep=marked` | what the application marks |
//! | `sweep=N` | workload number N of [`WORKLOADS`](takt_timerlat::sweep::WORKLOADS) |
//! | `sweep_entry=ADDRESS` | calls of the function at this address |
//! | `sweep_first=N`, `sweep_count=N`, `sweep_step=N` | the arrivals: position of the first, how many, how far apart |
//! | `sweep_window_ns=N` | the length of a load's stretch |
//! | `prio=N` | priority of the measured thread |

use takt_kernel::Error;
use takt_kernel::fault::ExitCode;
use takt_timerlat::sweep::{self, Entry, Plan, Subject, SweepBlock, SweepState};

use crate::cmdline::{BadValue, CommandLine};

/// What the host reads.
#[unsafe(no_mangle)]
static TAKT_SWEEP: SweepBlock = SweepBlock::new();

/// Starts a sweep if the command line asks for one. A workload or a function is swept before this returns, which it then
/// does not: the system ends. What the application marks is swept in its own time.
///
/// # Context
/// The first thread, before the application's others run.
pub fn start() {
    let line = CommandLine(crate::kept::command_line());
    let (plan, subject) = match read(&line) {
        Ok(Some(wanted)) => wanted,
        Ok(None) => return,
        Err(BadValue { offset }) => {
            defmt::error!(
                "sweep: bad value at byte {=usize} of the command line",
                offset
            );
            return end(false);
        }
    };
    if let Err(error) = sweep::start(&plan, subject, &TAKT_SWEEP) {
        fail(error);
    }
}

fn fail(error: Error) {
    defmt::error!("the sweep could not be started: {}", error);
    end(false);
}

fn read(line: &CommandLine<'_>) -> Result<Option<(Plan, Subject)>, BadValue> {
    let entry = line.number("sweep_entry", 0)?;
    let subject = if entry != 0 {
        // SAFETY: the host gives the address of a function of the image that it boots; that the function takes no
        // arguments is for the user to know, who names it.
        Subject::Entry(unsafe { core::mem::transmute::<usize, Entry>(entry as usize) })
    } else {
        match line.get("sweep") {
            None => return Ok(None),
            Some("marked") => Subject::Marked,
            Some(_) => Subject::Workload(line.number("sweep", 0)? as usize),
        }
    };
    let word = |key, default| {
        let value = line.number(key, default)?;
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    };
    let plan = Plan {
        first: word("sweep_first", 0)?,
        count: word("sweep_count", 0)?,
        step: word("sweep_step", 1)?,
        priority: word("prio", 95)? as u8,
        window_ns: line.number("sweep_window_ns", 0)?,
        end,
    };
    Ok(Some((plan, subject)))
}

/// The end of the sweep and of the system.
fn end(is_well: bool) {
    if !is_well {
        TAKT_SWEEP.state.store(
            SweepState::Failed as u32,
            core::sync::atomic::Ordering::Relaxed,
        );
    }
    crate::end(if is_well {
        ExitCode::Passed
    } else {
        ExitCode::Failed
    })
}
