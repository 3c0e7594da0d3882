//! Flags of what is about applications outside this repository.

use std::path::PathBuf;

use clap::{Args, Parser};

/// Flags of `new`.
#[derive(Debug, Args)]
#[command(after_help = "\
In the new folder `cargo run` boots the application and prints its log and trace, and `cargo test` runs its tests on the \
target. Arguments behind `--` are those of `run`: `cargo run -- --smp 2 -e all`.
With --c it is a program in C, with Takt in a static library and a header: `make run` boots it, \
`make run ARGS='--smp 2 -e all'` with flags of `run`.
With --git the application needs no clone of Takt: cargo has the crates from the repository, and `cargo run` calls the program \
`takt`, which `cargo install --git URL xtask --bin takt` installs.")]
pub struct New {
    /// The folder that is made.
    pub path: PathBuf,
    /// Name of the package, or of the program in C [default: that of the folder].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Have Takt's crates from this git repository, and not from the sources that this program was built of.
    #[arg(long, value_name = "URL")]
    pub git: Option<String>,
    /// Of the repository this commit [default: the newest, which Cargo.lock then keeps].
    #[arg(long, value_name = "REV", requires = "git")]
    pub rev: Option<String>,
    /// A program in C. Its library is built of the sources of this program.
    #[arg(long, conflicts_with = "git")]
    pub c: bool,
    /// An application of protected tasks, with a manifest of them.
    #[arg(long, conflicts_with = "c")]
    pub tasks: bool,
}

/// Flags of `runner`.
#[derive(Debug, Args)]
pub struct Runner {
    /// The image.
    #[arg(value_name = "ELF")]
    pub image: PathBuf,
    /// Flags of `run`; of an image with tests those of libtest.
    #[arg(
        value_name = "ARGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub args: Vec<String>,
}

/// What is behind `cargo test --`, as libtest has it.
#[derive(Debug, Parser)]
#[command(
    name = "cargo test --",
    bin_name = "cargo test --",
    after_help = "\
Tests run one after another, on a machine that counts instructions: --test-threads changes nothing. Of a test that fails it \
is shown what it printed, of others nothing: --nocapture and --show-output change nothing. None is ignored."
)]
pub struct TestWords {
    /// Only tests whose names have one of these.
    #[arg(value_name = "TEXT")]
    pub only: Vec<String>,
    /// None whose names have this; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub skip: Vec<String>,
    /// Names have to be the texts, not to have them.
    #[arg(long)]
    pub exact: bool,
    /// Say which there are, and run none.
    #[arg(long)]
    pub list: bool,
    /// Only ignored ones, of which there are none.
    #[arg(long, conflicts_with = "include_ignored")]
    pub ignored: bool,
    /// Ignored ones as well, of which there are none.
    #[arg(long)]
    pub include_ignored: bool,
    /// Changes nothing.
    #[arg(long, visible_alias = "no-capture")]
    pub nocapture: bool,
    /// Changes nothing.
    #[arg(long)]
    pub show_output: bool,
    /// Changes nothing.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub test_threads: Option<u16>,
}
