//! `latency-run`: the main job.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use console::style;
use takt_timerlat::config::User;
use takt_timerlat::stats::Status;
use takt_tracer::control::Tracer;
use tempfile::TempDir;

use super::{actions, bound};
use takt_base::term::WithHelp;
use takt_base::{EXIT_ERROR, output, paths, setup, term};
use takt_cli::{Action, LatencyRun};
use takt_guest::Elf;
use takt_guest::{patterns, words};
use takt_image::{Recipe, tasks};
use takt_machine::counted::Plugin;
use takt_machine::counted::plugin::check_qemu;
use takt_machine::load;
use takt_machine::qemu::accel::AccelChoice;
use takt_machine::qemu::accel::{self, Selected};
use takt_machine::qemu::{Accel, Machine};
use takt_machine::record::Run;
use takt_machine::run::execute::{self, Finished};
use takt_machine::run::follow::OnCycle;
use takt_machine::run::hits::Moment;
use takt_machine::run::signals::Watch;
use takt_machine::run::{Plan, RunConfig, folder, probe, provenance};
use takt_machine::said::Detail;
use takt_results::analysis::{self, Analysis};
use takt_results::hist::Canvas;
use takt_results::history::{Entry, Setup, store};
use takt_results::text::Format;
use takt_results::text::Parts;
use takt_results::{Buckets, json, text};
use takt_tracefs::launch::CONTROL_NS;

/// Runs a measurement, or reports on an earlier one.
pub(super) fn run(flags: &LatencyRun) -> Result<ExitCode> {
    if let Some(dir) = &flags.from {
        let dir = folder::find(Some(dir), &paths::runs())?;
        let run = load::load(&dir)?;
        return report(flags, &run, &dir);
    }
    let Some(finished) = take(flags, None)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let code = report(flags, &finished.run, &finished.dir)?;
    complain(&finished);
    finished.acted.context("--on-threshold")?;
    if finished.run.record.stop.is_some() {
        actions::perform(&at_threshold(flags), &finished.dir).context("--on-threshold")?;
    }
    actions::perform(&flags.on_end, &finished.dir).context("--on-end")?;
    Ok(code)
}

/// What is done if a threshold was hit.
fn at_threshold(flags: &LatencyRun) -> Vec<Action> {
    let trace = flags.trace.clone().map(Action::Trace);
    trace
        .into_iter()
        .chain(flags.on_threshold.clone())
        .collect()
}

/// Does it while the guest stands.
fn act(actions: &[Action], moment: &Moment<'_>) -> Result<()> {
    let is_trace = |action: &Action| matches!(action, Action::Trace(_));
    let dir = match actions.iter().any(is_trace) {
        true => Some(moment.folder().context("the trace so far cannot be had")?),
        false => None,
    };
    actions::perform(actions, dir.as_ref().map_or(Path::new(""), TempDir::path))
}

/// Measures and keeps the run, and does this with each activation as it comes; with `--dry-run` only says what would be done.
pub(super) fn take(flags: &LatencyRun, on_cycle: Option<&OnCycle<'_>>) -> Result<Option<Finished>> {
    let config = flags.config()?;
    if let Some(output) = &flags.output {
        folder::check_free(output, flags.force)?;
    }
    if flags.dry_run {
        dry_run(flags, &config)?;
        return Ok(None);
    }
    if let Some(file) = &flags.json {
        output::check_writable(file)?;
    }
    let finished = measure(flags, config, on_cycle)?;
    keep(flags, &finished.run, &finished.dir);
    if flags.auto.or(flags.aa_only).is_some() {
        analyse(&finished, flags.quiet);
        bound::keep(&finished.dir, &finished.run);
    }
    Ok(Some(finished))
}

/// Says what was last heard of a guest that failed.
pub(super) fn complain(finished: &Finished) {
    if let (Some(error), Some(words)) = (&finished.run.record.error, &finished.last_words) {
        tell!("{} {error}", style("error:").red().bold().for_stderr());
        tell!("last heard of the guest:\n{words}");
        tell!("help: everything is in {}", paths::shown(&finished.dir));
    }
}

/// Builds the image and runs what the flags say; reports nothing.
pub(super) fn measure(
    flags: &LatencyRun,
    mut config: RunConfig,
    on_cycle: Option<&OnCycle<'_>>,
) -> Result<Finished> {
    setup::ensure_qemu(!flags.no_install)?;
    if flags.verify || config.continues {
        // Before an image is built in vain.
        check_qemu()?;
    }
    let (elf, build_s) = image(flags, &config)?;
    if flags.auto.or(flags.aa_only).is_some() && !flags.event.is_empty() {
        config.add_analysed_events(&words::known(&takt_guest::events::table(&elf)?));
    }
    let event_ids = event_ids(&config, &elf)?;
    let words = execute::with_words(config.tracer_keys(&elf)?, &words(flags, &elf)?);
    let accel = accel::select(flags.accel, !flags.no_icount, || {
        probe::probe(&elf.path, Accel::Kvm)
    })?;
    let plugin = plugin(flags.verify, config.continues, &elf, accel.accel)?;
    let actions = at_threshold(flags);
    let on_hit = |moment: &Moment<'_>| act(&actions, moment);
    if !flags.quiet {
        if flags.accel == AccelChoice::Auto {
            tell!("Accelerator: {} ({})", accel.accel.name(), accel.why);
        }
        if let Some(output) = flags.output.as_deref().filter(|dir| folder::is_run(dir)) {
            term::note(format_args!(
                "{} holds an earlier run, which this one will replace",
                output.display()
            ));
        }
    }
    execute::execute(&Plan {
        config,
        event_ids,
        words,
        accel,
        elf: &elf,
        // What an image that was built before was built from is not known.
        git: match flags.image {
            None => provenance::git_revision(),
            Some(_) => provenance::UNKNOWN.into(),
        },
        build_s,
        output: flags.output.as_deref(),
        is_forced: flags.force,
        is_quiet: flags.quiet,
        lines: flags.cyclic.map(|cyclic| cyclic.lines),
        plugin,
        on_hit: Some(&on_hit),
        on_cycle,
    })
}

/// What counts the executed instructions for `--verify`, and has the guest stand at a threshold for `continue`.
fn plugin(verify: bool, continues: bool, elf: &Elf, accel: Accel) -> Result<Option<Plugin>> {
    let needed = [
        (verify, "--verify", "a nanosecond is an instruction"),
        (
            continues,
            "--on-threshold continue",
            "no time passes while the guest stands",
        ),
    ];
    let needed = needed.iter().find(|(is_needed, ..)| *is_needed);
    if let Some((_, flag, why)) = needed.filter(|_| accel != Accel::TcgIcount) {
        return Err(anyhow!(
            "{flag} is for icount, where {why}, and this is {}",
            accel.name()
        ))
        .help("name the accelerator: --accel tcg, without --no-icount");
    }
    Ok(match (verify, continues) {
        (false, false) => None,
        (true, false) => Some(Plugin::new(elf)?),
        (false, true) => Some(Plugin::standing(elf)?),
        (true, true) => Some(Plugin::new(elf)?.with(Plugin::standing(elf)?)),
    })
}

/// Keeps the run for the history. That it cannot be kept does not make it a bad run.
fn keep(flags: &LatencyRun, run: &Run, dir: &Path) {
    if flags.no_history {
        return;
    }
    let setup = Setup {
        append: flags.appended(),
        live: flags.live,
        image: flags.image.as_ref().map(|path| path.display().to_string()),
        has_all_logs: flags.verbose >= 2,
    };
    keep_in(flags.history.as_deref(), run, dir, setup);
}

/// Keeps the run in this history, or in the usual one.
pub(super) fn keep_in(history: Option<&Path>, run: &Run, dir: &Path, setup: Setup) {
    let history = paths::history(history);
    let folder = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let kept = Entry::new(run, &folder, setup).and_then(|entry| store::write(&history, &entry));
    if let Err(error) = kept {
        term::note(format_args!(
            "this run is not in the history: {}; make room or name another folder by --history or TAKT_HISTORY \
             (--no-history keeps nothing)",
            term::one_line(&error)
        ));
    }
}

/// Takes apart what hit the threshold. That it cannot be done does not make it a bad run.
fn analyse(finished: &Finished, is_quiet: bool) {
    let record = &finished.run.record;
    // To the end of this function: Ctrl-C ends the repeat, and what was measured is reported.
    let mut watch = match Watch::start() {
        Ok(watch) => watch,
        Err(error) => return term::note(format_args!("there is no analysis: {error}")),
    };
    if record.stop.is_some() && record.accel.accel == Accel::TcgIcount && !is_quiet {
        tell!("The run is repeated to see what was executed; Ctrl-C ends only that.");
    }
    let made =
        analysis::whole(&finished.dir, &finished.run, &mut watch).and_then(
            |analysis| match analysis {
                Some(analysis) => analysis::keep(&finished.dir, &analysis),
                None => Ok(()),
            },
        );
    if let Err(error) = made {
        term::note(format_args!(
            "there is no analysis: {}",
            term::one_line(&error)
        ));
    }
}

/// The image that suits the flags.
fn recipe(flags: &LatencyRun, config: &RunConfig) -> Result<Recipe> {
    let recipe = Recipe::takt(flags.verbose);
    let recipe = match (&flags.manifest, config.user) {
        (Some(manifest), _) => recipe.with_tasks(manifest),
        (None, User::Own) => recipe.with_tasks(&tasks::timerlatu(config.cpus.len())?),
        (None, _) => recipe,
    };
    Ok(match flags.tracer {
        Tracer::Function | Tracer::FunctionGraph => recipe.with_features(&["function"]),
        _ => recipe.for_words(&flags.append),
    })
}

/// The image: the user's, or ours, built if it is not up to date.
fn image(flags: &LatencyRun, config: &RunConfig) -> Result<(Elf, f64)> {
    if let Some(path) = &flags.image {
        let elf = Elf::open(path)?;
        elf.symbol(Status::SYMBOL)?;
        return Ok((elf, 0.0));
    }
    let built = recipe(flags, config)?.build()?;
    Ok((Elf::open(&built.path)?, built.took.as_secs_f64()))
}

/// What goes to the kernel's command line besides the measurement.
fn words(flags: &LatencyRun, elf: &Elf) -> Result<String> {
    let mut words = words::translate(&flags.appended(), elf)?.line;
    if flags.live {
        words = execute::with_words(format!("control_ns={CONTROL_NS}"), &words);
    }
    Ok(words)
}

fn event_ids(config: &RunConfig, elf: &Elf) -> Result<Vec<u32>> {
    let table = takt_guest::events::table(elf)?;
    patterns::resolve(&config.events, &words::known(&table))
}

/// Says what would be done.
fn dry_run(flags: &LatencyRun, config: &RunConfig) -> Result<()> {
    let mut accel = accel::select(flags.accel, !flags.no_icount, || Ok(()))?;
    if accel.accel == Accel::Kvm {
        accel.why = "vmx or svm is there; a probe boot would tell whether it works".into();
    }
    let dir = flags
        .output
        .clone()
        .unwrap_or_else(|| paths::runs().join(format!("{}-NNN", config.workload)));
    let machine = Machine {
        image: dir.join(folder::IMAGE),
        ram: "/dev/shm/takt-PID.ram".into(),
        cmdline: config
            .kernel_cmdline(accel.accel, &[])
            .replace("events= ", "events=IDS "),
        dir,
        smp: config.smp,
        accel: accel.accel,
    };
    let Selected { accel, why } = accel;
    let build = match &flags.image {
        Some(image) => format!("none: {} is booted", image.display()),
        None => recipe(flags, config)?.to_shell(),
    };
    output::line(format_args!("accelerator  {} ({why})", accel.name()))?;
    output::line(format_args!("events       {}", config.events.join(",")))?;
    output::line(format_args!("build        {build}"))?;
    output::line(format_args!("boot         {}", machine.to_shell()))?;
    Ok(())
}

/// What is known of the latency that stopped the run.
pub(super) fn analysis(run: &Run, dir: &Path) -> Option<Analysis> {
    analysis::of_run(dir, run).unwrap_or_else(|error| {
        term::note(format_args!(
            "what the run was stopped by cannot be taken apart: {}",
            term::one_line(&error)
        ));
        None
    })
}

/// What of a run is reported, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'f> {
    pub(super) detail: Detail,
    pub(super) buckets: Buckets,
    pub(super) parts: Parts,
    pub(super) is_analysis_only: bool,
    pub(super) has_cause: bool,
    pub(super) json: Option<&'f Path>,
}

/// What is left out, as the report takes it.
fn parts(flags: takt_cli::Parts) -> Parts {
    Parts {
        no_irq: flags.no_irq,
        no_thread: flags.no_thread,
        no_header: flags.no_header,
        no_summary: flags.no_summary,
        no_index: flags.no_index,
        with_zeros: flags.with_zeros,
    }
}

/// Reports as the flags say.
fn report(flags: &LatencyRun, run: &Run, dir: &Path) -> Result<ExitCode> {
    let shown = Shown {
        detail: Detail::of(flags.quiet, flags.verbose),
        buckets: Buckets {
            width: flags.bucket_ns(),
            limit: flags.entries,
        },
        parts: parts(flags.parts),
        is_analysis_only: flags.aa_only.is_some(),
        has_cause: !flags.no_aa,
        json: flags.json.as_deref(),
    };
    report_as(shown, run, dir)
}

/// Reports, and turns the verdict into an exit code.
pub(super) fn report_as(shown: Shown<'_>, run: &Run, dir: &Path) -> Result<ExitCode> {
    let analysis = match shown.has_cause {
        true => analysis(run, dir),
        false => None,
    };
    let bound = bound::kept(dir);
    if !shown.json.is_some_and(output::is_stdout) {
        let canvas = Canvas {
            width: term::width(),
            is_utf8: term::is_utf8(),
        };
        output::print(&text::write(
            run,
            dir,
            analysis.as_ref(),
            bound.as_ref(),
            Format {
                detail: shown.detail,
                buckets: shown.buckets,
                canvas,
                parts: shown.parts,
                is_analysis_only: shown.is_analysis_only,
                has_cause: shown.has_cause,
            },
        ))?;
    }
    if let Some(file) = shown.json {
        let breakdown = analysis.as_ref().map(Analysis::breakdown);
        output::to_named(
            file,
            &json::write(run, breakdown, bound.as_ref(), shown.buckets)?,
        )?;
    }
    if bound.is_some_and(|it| it.is_refuted()) {
        return Ok(ExitCode::from(EXIT_ERROR));
    }
    Ok(ExitCode::from(run.record.result.exit_code()))
}
