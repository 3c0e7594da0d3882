//! Flags of what is about applications outside this repository.

use std::path::PathBuf;

use clap::Args;

/// Flags of `new`.
#[derive(Debug, Args)]
#[command(after_help = "\
In the new folder `cargo run` boots the application and prints its log and trace, and `cargo test` runs its tests on the \
target. Arguments behind `--` are those of `run`: `cargo run -- --smp 2 -e all`.")]
pub struct New {
    /// The folder that is made.
    pub path: PathBuf,
    /// Name of the package [default: that of the folder].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

/// Flags of `runner`.
#[derive(Debug, Args)]
pub struct Runner {
    /// The image.
    #[arg(value_name = "ELF")]
    pub image: PathBuf,
    /// Flags of `run`; of an image with tests: words, of which a test's name has to have one.
    #[arg(
        value_name = "ARGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub args: Vec<String>,
}
