//! `report` and `history`.

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;
use takt_cli::{History, HistoryCommand, HistoryFilter, Metric, Report};
use takt_machine::record::{Distributions, Run};
use takt_results::history::commands::select::Filter;
use takt_results::history::commands::{compare, list, merge, open_named, plot, prune, show};
use takt_results::report::{self, Wanted};
use takt_timerlat::stats::ExactHistogram;

/// Writes a page of runs.
pub(super) fn report(flags: &Report) -> Result<ExitCode> {
    report::run(&Wanted {
        runs: &flags.runs,
        output: flags.output.as_deref(),
        bench: flags.bench.as_deref(),
        history: flags.history.as_deref(),
    })
}

/// Does what is wanted with the history.
pub(super) fn run(flags: &History) -> Result<ExitCode> {
    let history = &open_named(flags.history.as_deref())?;
    match &flags.command {
        HistoryCommand::List(flags) => {
            let limit = flags.limit.map_or(usize::MAX, |nr| nr as usize);
            list::run(history, filter(&flags.filter), limit, flags.json)
        }
        HistoryCommand::Show(flags) => show::run(history, &flags.run, flags.json),
        HistoryCommand::Compare(flags) => {
            compare::run(history, (&flags.a, &flags.b), flags.force, flags.json)
        }
        HistoryCommand::Merge(flags) => merge::run(history, &flags.runs, flags.force, flags.json),
        HistoryCommand::Plot(flags) => {
            let name = flags.metric.to_possible_value();
            let name = name.as_ref().map_or("", |it| it.get_name());
            let value = |run: &Run| value(flags.metric, run);
            let path = flags.output.as_deref();
            plot::run(history, filter(&flags.filter), name, value, path)
        }
        HistoryCommand::Prune(flags) => prune::run(history, flags.keep, flags.dry_run),
    }
}

fn filter(flags: &HistoryFilter) -> Filter<'_> {
    Filter {
        fields: &flags.fields,
        like: flags.like.as_deref(),
    }
}

/// A metric of a run over all measured threads.
fn value(metric: Metric, run: &Run) -> Option<f64> {
    use Metric::{
        IrqAvg, IrqMax, IrqMin, IrqP50, IrqP99, IrqP999, ThreadAvg, ThreadMax, ThreadMin,
        ThreadP50, ThreadP99, ThreadP999,
    };
    let Distributions { irq, thread, .. } = run.over_all();
    let all: &ExactHistogram = match metric {
        IrqMin | IrqAvg | IrqP50 | IrqP99 | IrqP999 | IrqMax => &irq,
        ThreadMin | ThreadAvg | ThreadP50 | ThreadP99 | ThreadP999 | ThreadMax => &thread,
    };
    let ns = match metric {
        IrqAvg | ThreadAvg => return all.avg(),
        IrqMin | ThreadMin => all.min(),
        IrqP50 | ThreadP50 => all.percentile(500),
        IrqP99 | ThreadP99 => all.percentile(990),
        IrqP999 | ThreadP999 => all.percentile(999),
        IrqMax | ThreadMax => all.max(),
    };
    ns.map(|ns| ns as f64)
}
