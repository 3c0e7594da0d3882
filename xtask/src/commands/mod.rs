//! The commands, one module each.

mod actions;
mod attach;
mod bench;
mod bound;
mod budget;
mod build;
mod ci;
mod compare;
mod cyclictest;
mod doctor;
mod functions;
mod fuzz;
mod history;
mod image;
mod latency_run;
mod latency_sweep;
mod log;
mod manual;
mod new;
mod osnoise;
mod prove;
mod run;
mod runner;
mod test;
mod trace;
pub mod tracefs;

pub use ci::has_ci_step;

use std::process::ExitCode;

use anyhow::Result;

use takt_cli::{Cli, Command};

/// Does what the command line says and gives the exit code.
///
/// # Errors
///
/// Whatever went wrong.
pub fn dispatch(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        Command::LatencyRun(flags) => latency_run::run(&flags),
        Command::Cyclictest(flags) => cyclictest::run(&flags),
        Command::Attach(flags) => attach::run(&flags),
        Command::LatencySweep(flags) => latency_sweep::run(&flags),
        Command::Compare(flags) => compare::run(&flags),
        Command::Doctor => doctor::run(),
        Command::Log(flags) => log::run(&flags),
        Command::Report(flags) => history::report(&flags),
        Command::History(flags) => history::run(&flags),
        Command::Build(flags) => build::run(&flags),
        Command::Image(flags) => image::run(&flags),
        Command::Test(flags) => test::run(&flags),
        Command::Ci => ci::run(),
        Command::Run(flags) => run::run(&flags),
        Command::New(flags) => new::run(&flags),
        Command::Runner(flags) => runner::run(flags),
        Command::Trace(flags) => trace::run(&flags),
        Command::Osnoise(flags) => osnoise::run(&flags),
        Command::Hwnoise(flags) => osnoise::hwnoise(&flags),
        Command::Tracefs(flags) => tracefs::run(&flags),
        Command::Budget(flags) => budget::run(&flags),
        Command::Bench(flags) => bench::run(&flags),
        Command::Functions(flags) => functions::run(&flags),
        Command::Prove(flags) => prove::run(&flags),
        Command::Fuzz(flags) => fuzz::run(&flags),
        Command::Completions(flags) => manual::completions(&flags),
        Command::Man(flags) => manual::pages(&flags),
    }
}
