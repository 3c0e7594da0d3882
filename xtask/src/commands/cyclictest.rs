//! `cyclictest`: the pipeline of `latency-run`, with cyclictest's flags and output.

mod print;

use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::{Context, Result};

use super::latency_run;
use print::Each;
use takt_base::term::write_stderr;
use takt_base::{output, paths};
use takt_cli::Cyclictest;
use takt_machine::record::Verdict;
use takt_machine::run::follow::OnCycle;
use takt_machine::samples;
use takt_results::text;

/// Runs a measurement.
pub(super) fn run(flags: &Cyclictest) -> Result<ExitCode> {
    let measurement = flags.measurement()?;
    if let Some(file) = &flags.histfile {
        output::check_writable(file)?;
    }
    let config = measurement.config()?;
    let is_json_alone = flags.json.as_deref().is_some_and(output::is_stdout);
    let each = (flags.verbose && !is_json_alone).then(|| Mutex::new(Each::new(flags, &config)));
    let print_each = |cycle| {
        let each = each.as_ref().and_then(|each| each.lock().ok());
        let text = each.map_or(String::new(), |mut each| each.next(cycle));
        output::print(&text).map(drop)
    };
    let on_cycle: &OnCycle<'_> = &print_each;
    let Some(finished) = latency_run::take(&measurement, each.as_ref().map(|_| on_cycle))? else {
        return Ok(ExitCode::SUCCESS);
    };
    let (run, dir) = (&finished.run, &finished.dir);
    let record = &run.record;
    let samples = match (flags.needs_samples(), record.result) {
        (_, Verdict::Error) => Vec::new(),
        (true, _) => samples::measured(dir, run).context("cannot list the latencies")?,
        // Without records of them only their number is known.
        _ if print::has_overflows(flags, run) => samples::measured(dir, run).unwrap_or_default(),
        _ => Vec::new(),
    };
    if let Some(mut each) = each.as_ref().and_then(|each| each.lock().ok()) {
        output::print(&each.rest(&samples, run))?;
    }
    if !is_json_alone {
        output::print(&print::write(flags, run, &samples))?;
    }
    if let Some(file) = &flags.histfile {
        output::to_named(file, &print::histogram(flags, run, &samples))?;
    }
    if let Some(file) = &flags.json {
        let words: Vec<_> = std::env::args().skip(1).collect();
        output::to_named(file, &print::json(flags, run, &words)?)?;
    }
    if !flags.quiet || record.result != Verdict::Passed {
        let analysis = latency_run::analysis(run, dir);
        write_stderr(&text::ending(record, analysis.as_ref()));
        tell!("{:<12} {}", "run folder", paths::shown(dir));
    }
    latency_run::complain(&finished);
    finished.acted?;
    Ok(ExitCode::from(record.result.exit_code()))
}
