//! The commands.
use crate::cli::Cli;
use std::process::ExitCode;
/// x
pub fn dispatch(_cli: Cli) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
