//! Filters, triggers, histograms, snapshots and stacks after events, of a live guest.

use anyhow::{Context, Result, ensure};
use regex::Regex;

use super::Stage;

/// Runs commands, in which `@` is the event of switches.
fn shell(stage: &Stage, commands: &str) -> Result<String> {
    let commands = &*commands.replace('@', "events/sched/sched_switch");
    let done = stage.xtask(&["tracefs", "shell", "--no-install", "-c", commands])?;
    Ok(done.code(0)?.stdout)
}

/// What the commands have printed from one mark to the next.
fn parts(text: &str) -> Vec<&str> {
    text.split("---\n").collect()
}

/// A filter lets through what it says; what is wrong with one shows with its place, and there is none then.
pub(super) fn filters(stage: &Stage) -> Result<()> {
    // As long as a session's, and longer than there is room for.
    let alternatives = |nr: u32| {
        let names = (0..nr).map(|number| format!("next_comm == \"worker/{number}\""));
        names.collect::<Vec<_>>().join(" || ")
    };
    let (long, too_long) = (alternatives(20), alternatives(100));
    let long_ones = format!(
        "echo '{long} || next_pid == 0' > @/filter; cat @/filter; echo > trace; echo 1 > @/enable; sleep 0.05\n\
         echo 0 > @/enable; cat trace | grep -c next_pid=0; echo '{too_long}' > @/filter; cat @/filter; cat error_log | tail -3; echo 0 > @/filter"
    );
    let text = shell(
        stage,
        &[
        "cat @/filter; echo 'next_pid == 0 && next_comm ~ \"swap*\"' > @/filter; cat @/filter\n\
         echo 1 > @/enable; sleep 0.05; echo 0 > @/enable; echo ---; cat trace; echo ---\n\
         echo 'next_pid = 3' > @/filter; cat @/filter; echo 'prev_pid > nothing' > @/filter; cat @/filter\n\
         echo > trace; echo 1 > @/enable; sleep 0.05; echo 0 > @/enable; echo ---; cat trace; echo ---; cat error_log\n\
         echo ---; echo 0 > @/filter; cat @/filter; echo 'next_prio < 200' > events/sched/filter; cat @/filter; echo ---\n\
         echo 'no_such_field == 1' > events/sched/filter; cat events/sched/filter; cat events/sched/sched_wakeup/filter; echo 0 > events/sched/filter; cat @/filter events/sched/filter; echo ---",
            &long_ones,
        ]
        .join("\n"),
    )?;
    let [set, trace, refused, all, log, system, end, long_ones] = parts(&text)[..] else {
        anyhow::bail!("{text}");
    };
    ensure!(
        set == "none\nnext_pid == 0 && next_comm ~ \"swap*\"\n",
        "{set}"
    );
    let switches: Vec<_> = trace
        .lines()
        .filter(|line| line.contains("sched_switch: "))
        .collect();
    ensure!(switches.len() > 10, "{trace}");
    for line in switches {
        ensure!(line.contains("next_comm=swapper/0 next_pid=0 "), "{line}");
        // The switch before, to the one who ran, was left out; who ran is known all the same.
        let (task, _) = line.trim_start().split_once('-').context("no task")?;
        ensure!(
            task != "<idle>" && line.contains(&format!("prev_comm={task} ")),
            "{line}"
        );
    }
    let lines: Vec<_> = refused.lines().collect();
    ensure!(
        matches!(
            lines[..],
            [
                "next_pid = 3",
                "         ^",
                first,
                "prev_pid > nothing",
                "           ^",
                second
            ] if [first, second].iter().all(|said| said.starts_with("parse_error: "))
        ),
        "{refused}"
    );
    // Nothing is left out any more.
    ensure!(all.contains("prev_comm=swapper/0 prev_pid=0 "), "{all}");
    let carets: Vec<_> = log.lines().filter_map(|line| line.find('^')).collect();
    let command = "  Command: ".len();
    let places = ["next_pid ", "prev_pid > "].map(|before| command + before.len());
    ensure!(carets == places, "{log}");
    ensure!(system == "none\nnext_prio < 200\n", "{system}");
    // The filter of a system that fits no event changes nothing.
    let (refused, end) = end.split_once("none\n").context("a filter")?;
    ensure!(
        refused.starts_with("no_such_field == 1\n^\nparse_error: "),
        "{refused}"
    );
    ensure!(end.starts_with("none\n###"), "{end}");
    let mut lines = long_ones.lines();
    let (shown, count) = (lines.next(), lines.next().context("a count")?);
    ensure!(
        shown == Some(&*format!("{long} || next_pid == 0")) && count.parse::<u32>()? > 10,
        "{long_ones}"
    );
    let refused = "parse_error: there is room for 2048 bytes";
    ensure!(lines.any(|line| line == refused), "{long_ones}");
    Ok(())
}

/// A filter on a name lets a thread through that is created with it afterwards: the one of the hwlat detector, each time
/// anew.
pub(super) fn filter_on_a_later_name(stage: &Stage) -> Result<()> {
    let text = shell(
        stage,
        "echo 1000000 > tracing_thresh; echo 2000 > hwlat_detector/width; echo 20000 > hwlat_detector/window\n\
         echo 'next_comm == \"hwlat\"' > @/filter; echo 1 > @/enable; sleep 0.05; cat trace; echo ---\n\
         echo hwlat > current_tracer; sleep 0.3; cat trace; echo ---\n\
         echo nop > current_tracer; echo > trace; echo hwlat > current_tracer; sleep 0.3; cat trace",
    )?;
    let [before, first, second] = parts(&text)[..] else {
        anyhow::bail!("{text}");
    };
    let switches = |trace: &str| {
        let lines = trace.lines().filter(|line| line.contains("sched_switch: "));
        let (its, others): (Vec<_>, Vec<_>) =
            lines.partition(|line| line.contains("next_comm=hwlat "));
        (its.len(), others.len())
    };
    ensure!(switches(before) == (0, 0), "{before}");
    for trace in [first, second] {
        let (its, others) = switches(trace);
        ensure!(its > 0 && others == 0, "{trace}");
    }
    Ok(())
}

/// Triggers act as often as they may, are shown with what is left, and go by their name.
pub(super) fn triggers(stage: &Stage) -> Result<()> {
    let text = shell(
        stage,
        "cat @/trigger; echo 'traceoff:1 if next_pid == 0' > @/trigger\n\
         echo 'traceoff' > @/trigger; cat @/trigger @/enable; sleep 0.05; cat @/trigger tracing_on; echo ---\n\
         echo '!traceoff' > @/trigger; echo '!traceoff' > @/trigger; cat @/trigger; echo 1 > tracing_on; echo ---\n\
         echo 1 > @/enable; echo 'snapshot:1 if next_prio < 50' > @/trigger; sleep 0.05; echo 0 > @/enable; cat @/trigger; echo ---\n\
         cat snapshot; echo ---; echo '!snapshot' > @/trigger; echo 0 > snapshot; cat snapshot; echo ---\n\
         echo > trace; echo 'stacktrace:2' > @/trigger; sleep 0.05; echo '!stacktrace' > @/trigger; cat trace; echo ---\n\
         echo > trace; echo 1 > options/stacktrace; echo hello > trace_marker\n\
         echo 0 > options/stacktrace; echo hello > trace_marker; cat trace",
    )?;
    let [set, gone, spent, snapshot, freed, stacks, after] = parts(&text)[..] else {
        anyhow::bail!("{text}");
    };
    let (_, set) = set
        .split_once("disable_event\n")
        .context("no list of triggers")?;
    let condition = "if next_pid == 0\n";
    ensure!(
        set.contains(condition) && set.ends_with(&format!("0\ntraceoff:count=0 {condition}0\n")),
        "{set}"
    );
    ensure!(gone.starts_with("# Available triggers:\n"), "{gone}");
    ensure!(spent == "snapshot:count=0 if next_prio < 50\n", "{spent}");
    // The last one is the one that took it.
    let last = snapshot
        .lines()
        .rfind(|line| line.contains("sched_switch: "));
    ensure!(
        last.is_some_and(|line| line.contains("next_comm=cyclic/0 ")),
        "{snapshot}"
    );
    ensure!(freed.contains("* Snapshot is freed *"), "{freed}");
    ensure!(stacks.matches("<stack trace>\n").count() == 2, "{stacks}");
    ensure!(stacks.contains("\n => takt_kernel::"), "{stacks}");
    ensure!(
        after.matches("tracing_mark_write: hello\n").count() == 2,
        "{after}"
    );
    ensure!(after.matches("<stack trace>\n").count() == 1, "{after}");

    // While a latency tracer keeps its maxima there, a snapshot is neither taken nor freed nor shown.
    let busy = "echo irqsoff > current_tracer; echo 0 > snapshot; echo 1 > snapshot; echo 2 > snapshot\n\
                cat snapshot per_cpu/cpu0/snapshot";
    let done = stage
        .xtask(&["tracefs", "shell", "--no-install", "-c", busy])?
        .code(1)?;
    ensure!(
        done.stderr.matches("Device or resource busy").count() == 5,
        "{}",
        done.stderr
    );
    // What is recorded goes on: as many are shown as were written, or fewer.
    let looks = "echo > trace; cat trace\n".repeat(20);
    let text = shell(stage, &format!("echo 1 > events/enable; {looks}"))?;
    for line in text
        .lines()
        .filter(|line| line.contains("entries-in-buffer"))
    {
        let mut numbers = line.split(|char: char| !char.is_ascii_digit());
        let mut next = || numbers.find_map(|number| number.parse::<u64>().ok());
        let (in_buffer, written) = (next().context("none")?, next().context("none")?);
        ensure!(in_buffer <= written, "{line}");
    }
    ensure!(text.matches("entries-in-buffer").count() == 20, "{text}");
    Ok(())
}

/// A stack behind a switch is of who was left: the next switch is from the other all the same.
pub(super) fn stacks_behind_switches(stage: &Stage) -> Result<()> {
    let text = shell(
        stage,
        "echo 'sched:sched_switch' > set_event; echo stacktrace > @/trigger; echo > trace; sleep 0.1\n\
         echo 0 > tracing_on; cat trace; echo ---; echo '!stacktrace' > @/trigger; echo stacktrace > trace_options\n\
         echo > trace; echo 1 > tracing_on; sleep 0.1; echo 0 > tracing_on; cat trace",
    )?;
    for trace in parts(&text) {
        ensure!(trace.matches("<stack trace>\n").count() > 50, "{trace}");
        switches_follow(trace)?;
    }
    Ok(())
}

/// A snapshot behind a switch is no other thread's: the next switch, the first one after it, is from the one that ran.
/// Only switches to cyclictest's thread (priority 19) take one, so that at least the switch away from it lies between two:
/// switches to the thread that serves this session may follow each other at once.
pub(super) fn snapshots_behind_switches(stage: &Stage) -> Result<()> {
    let text = shell(
        stage,
        "echo 'sched:sched_switch' > set_event; echo 'snapshot:5 if next_prio == 19' > @/trigger; sleep 0.05\n\
         echo 0 > tracing_on; cat @/trigger; echo ---; cat snapshot; echo ---; cat trace",
    )?;
    let [trigger, snapshot, trace] = parts(&text)[..] else {
        anyhow::bail!("{text}");
    };
    ensure!(
        trigger == "snapshot:count=0 if next_prio == 19\n",
        "{trigger}"
    );
    ensure!(switches_follow(snapshot)? > 1, "{snapshot}");
    ensure!(switches_follow(trace)? > 10, "{trace}");
    ensure!(
        switches_follow(&format!("{snapshot}{trace}"))? > 12,
        "{snapshot}{trace}"
    );
    Ok(())
}

/// Each switch is from the thread that the one before it has switched to; says how many there are.
fn switches_follow(trace: &str) -> Result<usize> {
    let switch = Regex::new(r"prev_comm=(\S+) prev_pid=(\d+) .* next_comm=(\S+) next_pid=(\d+) ")?;
    let mut last = None;
    let mut nr = 0;
    for line in trace.lines() {
        let Some((_, [prev, prev_pid, next, next_pid])) =
            switch.captures(line).map(|it| it.extract())
        else {
            continue;
        };
        ensure!(
            last.is_none_or(|last| last == (prev, prev_pid)),
            "{last:?} had the CPU before {line}"
        );
        last = Some((next, next_pid));
        nr += 1;
    }
    Ok(nr)
}

/// Histograms with the same keys differ in their conditions, and each goes by what it is.
pub(super) fn histograms_beside(stage: &Stage) -> Result<()> {
    let text = shell(
        stage,
        "echo 'hist:keys=next_pid:vals=next_prio if next_prio < 50' > @/trigger\n\
         echo 'hist:keys=next_pid:vals=next_prio if next_prio > 50' >> @/trigger\n\
         echo 'hist:keys=next_pid:vals=next_prio' >> @/trigger; cat @/trigger; echo ---\n\
         echo '!hist:keys=next_pid' > @/trigger; echo '!hist:keys=next_pid:vals=next_prio if next_prio > 50' > @/trigger\n\
         cat @/trigger; echo ---; sleep 0.1; cat @/hist; echo ---; echo '!hist:keys=next_pid:vals=next_prio' > @/trigger\n\
         echo '!hist:keys=next_pid' > @/trigger; cat @/trigger",
    )?;
    let [set, left, hist, gone] = parts(&text)[..] else {
        anyhow::bail!("{text}");
    };
    let line = |condition: &str| {
        format!(
            "hist:keys=next_pid:vals=hitcount,next_prio:sort=hitcount:size=1024{condition} [active]\n"
        )
    };
    let (below, above, all) = (
        line(" if next_prio < 50"),
        line(" if next_prio > 50"),
        line(""),
    );
    ensure!(set == format!("{below}{above}{all}"), "{set}");
    ensure!(left == format!("{below}{all}"), "{left}");
    let tables: Vec<_> = hist.split("# event histogram").skip(1).collect();
    let [below, all] = tables[..] else {
        anyhow::bail!("{hist}");
    };
    let idle = "{ next_pid:          0 }";
    ensure!(!below.contains(idle) && all.contains(idle), "{hist}");
    ensure!(gone.starts_with("# Available triggers:\n"), "{gone}");
    Ok(())
}

/// Every event is counted under its key, also while the event is off.
pub(super) fn histograms(stage: &Stage) -> Result<()> {
    let text = shell(
        stage,
        "echo 'hist:keys=next_comm,next_prio:sort=hitcount.descending' > @/trigger\n\
         echo 'hist:keys=common_pid.execname:vals=next_prio:size=8 if prev_state == S' > @/trigger; cat @/trigger; echo ---\n\
         sleep 0.1; cat @/hist; echo ---; cat @/enable trace; echo ---\n\
         echo '!hist:keys=next_comm,next_prio' > @/trigger; cat @/trigger; echo 'hist:keys=nothing' > @/trigger; cat error_log",
    )?;
    let [set, hist, off, gone] = parts(&text)[..] else {
        anyhow::bail!("{text}");
    };
    let first =
        "hist:keys=next_comm,next_prio:vals=hitcount:sort=hitcount.descending:size=1024 [active]\n";
    let second = "hist:keys=common_pid.execname:vals=hitcount,next_prio:sort=hitcount:size=8 if prev_state == S [active]\n";
    ensure!(set == format!("{first}{second}"), "{set}");
    let (one, other) = hist.split_at(hist.rfind("# event histogram").context("no histogram")?);
    for (table, info) in [(one, first), (other, second)] {
        ensure!(
            table.starts_with(&format!(
                "# event histogram\n#\n# trigger info: {info}#\n\n"
            )),
            "{table}"
        );
        let mut sum = 0;
        let mut last = None;
        for row in table.lines().filter(|line| line.starts_with('{')) {
            let hits = row.split("hitcount:").nth(1).context("no hits")?;
            let hits: u64 = hits.split_whitespace().next().context("no hits")?.parse()?;
            let is_sorted =
                last.is_none_or(|last: u64| (hits <= last) == (info == first) || hits == last);
            ensure!(is_sorted, "{table}");
            last = Some(hits);
            sum += hits;
        }
        ensure!(
            sum > 10 && table.contains(&format!("    Hits: {sum}\n")),
            "{table}"
        );
        ensure!(table.ends_with("    Dropped: 0\n"), "{table}");
    }
    ensure!(one.contains("{ next_comm: cyclic/0 "), "{one}");
    ensure!(
        other.contains("{ common_pid: cyclic/0        [") && other.contains("  next_prio: "),
        "{other}"
    );
    ensure!(
        off.starts_with("0\n") && off.contains("entries-in-buffer/entries-written: 0/0"),
        "{off}"
    );
    ensure!(
        gone.starts_with(second) && gone.contains("  Command: hist:keys=nothing\n"),
        "{gone}"
    );
    Ok(())
}
