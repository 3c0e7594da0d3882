//! Flags of `attach`.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use takt_base::device::Device;

/// Flags of `attach`.
#[derive(Debug, Args)]
#[command(after_help = "\
The machine is booted with capture=com1 on the kernel's command line, or capture=com1,SPEED for another speed than 115200; \
COM1 is connected by a null modem cable. With mode=flight (a recording in flight) the trace is sent at the end: what the line is \
too slow for is not missing then, what is older than the ring is. With mode=capture it is sent as far as the line carries it. Ctrl-C ends \
the measurement, and what was measured is sent. Of an application that measures nothing log, trace and end are shown.
Exit codes: 0 passed, 1 error (also: the line was cut, nothing came, another speed, another image), 2 a threshold was hit, 3 \
tainted, 130 interrupted.")]
pub struct Attach {
    /// The serial line: a serial port (/dev/ttyUSB0), a pseudo-terminal (QEMU's -serial pty), tcp:HOST:PORT or unix:PATH.
    #[arg(long, value_name = "DEV")]
    pub serial: Device,
    /// Its speed in baud.
    #[arg(long, value_name = "SPEED", value_parser = clap::value_parser!(u32).range(1..), default_value_t = 115_200)]
    pub baud: u32,
    /// Wait for a machine to boot, however long it takes; a run that is under way, and its end, are passed over.
    #[arg(long)]
    pub listen: bool,
    /// The image that the machine has booted, unstripped [default: the one that `image` puts onto media].
    #[arg(long, value_name = "ELF")]
    pub image: Option<PathBuf>,
    /// Run folder [default: the next free runs/attach-NNN].
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace the run that is in the folder of --output.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Write the results as JSON to this file; `-` is stdout, and then the text is left out.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Do not keep this run in the history (`xtask history`).
    #[arg(long, conflicts_with = "history")]
    pub no_history: bool,
    /// Keep it in the history in this folder [default: TAKT_HISTORY, or runs/.history].
    #[arg(long, value_name = "DIR")]
    pub history: Option<PathBuf>,
    /// Only the summary and the verdict, and nothing while it runs.
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// More: clocks, threads, the kernel's command line.
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
}
