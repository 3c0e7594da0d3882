//! The files of the function profiler and of the stack tracer, and stacks in a trace, of a guest that has them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

use super::tracefs::contains;
use super::{Done, Stage};
use takt_image::Recipe;

/// Commands for a guest with feature `function`, and more words for its command line.
fn shell(stage: &Stage, words: &str, commands: &str) -> Result<Done> {
    let image = Recipe::takt(0).with_features(&["function"]).build()?.path;
    let image = image.to_str().context("a path that is no text")?;
    let fixed = ["tracefs", "shell", "--no-install", "--image", image];
    let more = ["--append", words, "-c", commands];
    stage.xtask(&[&fixed[..], &more].concat())?.code(0)
}

/// The text between two words that the commands have printed.
fn between<'t>(text: &'t str, begin: &str, end: &str) -> Result<&'t str> {
    let inside = text
        .split_once(begin)
        .and_then(|(_, rest)| rest.split_once(end));
    let (inside, _) =
        inside.with_context(|| format!("nothing between {begin} and {end} in\n{text}"))?;
    Ok(inside)
}

/// Both are switched on, find something that can be, and are switched off; what is not on says so.
pub(super) fn profiler_and_stack_tracer(stage: &Stage) -> Result<()> {
    let done = shell(
        stage,
        "",
        "cat function_profile_enabled stack_tracer_enabled stack_max_size; echo A; cat trace_stat/function0; echo B\n\
         cat stack_trace; echo C; echo 1 > stack_tracer_enabled; echo 1 > function_profile_enabled; sleep 0.3\n\
         echo 0 > function_profile_enabled; echo 0 > stack_tracer_enabled\n\
         cat trace_stat/function0; echo D; cat stack_trace; echo E; cat stack_max_size; echo F\n\
         echo 12 > stack_max_size; cat stack_max_size stack_trace; echo G; ls; echo H; ls trace_stat",
    )?;
    let text = &done.stdout;
    ensure!(text.starts_with("0\n0\n0\nA\n"), "{text}");
    let head = "  Function                               Hit    Time            Avg             s^2\n\
                \u{20} --------                               ---    ----            ---             ---\n";
    ensure!(between(text, "A\n", "B\n")? == head, "{text}");
    ensure!(
        between(text, "B\n", "C\n")?.contains("Stack tracer disabled"),
        "{text}"
    );
    let profile = between(text, "C\n", "D\n")?;
    let rows = profile.strip_prefix(head).context("no head")?;
    ensure!(rows.lines().count() > 5, "{profile}");
    for row in rows.lines() {
        let what = || format!("the row `{row}`");
        let (_, numbers) = row.split_at_checked(32).with_context(what)?;
        let words: Vec<_> = numbers.split_whitespace().collect();
        let [hits, time, "us", average, "us", variance, "us"] = words[..] else {
            bail!("{}", what());
        };
        let hits: f64 = hits.parse().with_context(what)?;
        let [time, average, variance] = [time, average, variance].map(str::parse::<f64>);
        let (time, average) = (time.with_context(what)?, average.with_context(what)?);
        // Of long times the last decimals are left out.
        ensure!(
            (time / hits - average).abs() < 0.2 && variance? >= 0.0,
            "{}",
            what()
        );
    }
    let stacks = between(text, "D\n", "E\n")?;
    ensure!(
        stacks.contains("# stack of cyclic/0-")
            && stacks.contains("# stack of interrupts of CPU 0: "),
        "{stacks}"
    );
    let mut greatest = 0;
    for table in stacks.split("\n\n") {
        let mut depths = Vec::new();
        let mut sum = 0;
        for line in table.lines().skip(3) {
            let mut words = line.split_whitespace().skip(1).map(str::parse::<u32>);
            let (Some(Ok(depth)), Some(Ok(size))) = (words.next(), words.next()) else {
                bail!("the line `{line}`");
            };
            depths.push(depth);
            sum += size;
        }
        // The sizes are what the depths differ by, so all of them are the whole.
        ensure!(
            depths.is_sorted_by(|one, next| one > next) && depths.first() == Some(&sum),
            "{table}"
        );
        greatest = greatest.max(sum);
    }
    ensure!(
        between(text, "E\n", "F\n")? == format!("{greatest}\n"),
        "{text}"
    );
    ensure!(
        between(text, "F\n", "G\n")?.starts_with("12\n#\n"),
        "{text}"
    );
    ensure!(
        between(text, "G\n", "H\n")?.contains("\ntrace_stat\n"),
        "{text}"
    );
    ensure!(text.ends_with("H\nfunction0\n"), "{text}");
    // An image without function tracing does not have the files.
    let image = Recipe::takt(0).build()?.path;
    let image = image.to_str().context("a path that is no text")?;
    let words = ["tracefs", "shell", "--no-install", "--image", image];
    let done = stage
        .xtask(&[&words[..], &["-c", "ls"]].concat())?
        .code(0)?;
    ensure!(
        !["trace_stat", "stack_trace", "function_profile"]
            .iter()
            .any(|name| done.stdout.contains(name)),
        "{}",
        done.stdout
    );
    Ok(())
}

/// Whether a stack's caller `name+0x4a/0xc0` is in the block that the record tells, `name+0x40..0x7f/0xc0`.
fn is_in_block(caller: &str, block: &str) -> Option<bool> {
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let parts = |text: &str| {
        let (name, place) = text.rsplit_once('+')?;
        let (offset, size) = place.split_once('/')?;
        Some((name.to_owned(), offset.to_owned(), size.to_owned()))
    };
    let (name, offset, size) = parts(caller)?;
    let (of, range, len) = parts(block)?;
    let (first, last) = range.split_once("..")?;
    let is_inside = (hex(first)?..=hex(last)?).contains(&hex(&offset)?);
    Some(is_inside && name == of && size == len && hex(last)? < hex(&size)?)
}

/// Set at boot as Linux spells it, read and set live: each function is followed by its stack. With offsets, the stack's
/// are exact and what the record says agrees with them.
pub(super) fn func_stack_trace(stage: &Stage) -> Result<()> {
    let done = shell(
        stage,
        "trace_options=func_stack_trace stacktrace",
        "cat options/func_stack_trace options/stacktrace stack_tracer_enabled; echo 0 > stack_tracer_enabled\n\
         echo A; echo function > current_tracer; sleep 0.05; echo 0 > tracing_on; cat trace; echo B\n\
         echo sym-offset > trace_options; cat trace; echo C\n\
         echo nop > current_tracer; echo nofunc_stack_trace > trace_options; cat options/func_stack_trace",
    )?;
    let text = &done.stdout;
    ensure!(text.starts_with("1\n0\n1\nA\n"), "{text}");
    ensure!(text.ends_with("C\n0\n"), "{text}");
    let stacks = followed(between(text, "A\n", "B\n")?)?;
    for (record, [own, caller]) in &stacks {
        let shown = format!("{own} <-{caller}");
        ensure!(record == &shown, "behind `{record}`: {own}, {caller}");
    }
    let nr = stacks.len();
    ensure!(nr > 50, "only {nr} stacks");
    let stacks = followed(between(text, "B\n", "C\n")?)?;
    ensure!(stacks.len() == nr, "{} of {nr} stacks", stacks.len());
    for (record, [own, caller]) in &stacks {
        let (function, parent) = record.split_once(" <-").context("no caller")?;
        ensure!(
            function == *own && own.contains("+0x0/0x"),
            "behind `{record}`: {own}"
        );
        ensure!(
            is_in_block(caller, parent) == Some(true),
            "behind `{record}`: {caller}"
        );
    }
    Ok(())
}

/// With the option `function-trace`, and only then, what a latency tracer keeps has the functions that ran, none of the
/// tracer's own among them; they do not outlast it.
pub(super) fn beside_latency_tracers(stage: &Stage) -> Result<()> {
    const ROUND: &str = "echo 0 > tracing_on; echo > trace; echo irqsoff > current_tracer; echo 1 > tracing_on; sleep 0.1\n\
         echo 0 > tracing_on; cat trace\n";
    // Not every stretch calls a function; a timer's interrupt does, and most are such.
    let rounds = ROUND.repeat(6);
    let commands = format!(
        "cat options/function-trace\n{ROUND}echo A; echo 1 > options/function-trace; cat options/function-trace\n{rounds}echo B\n\
         echo nop > current_tracer; echo > trace; echo sched:sched_switch > set_event; echo 1 > tracing_on; sleep 0.1\n\
         echo 0 > tracing_on; cat trace; echo C; echo > set_event\n\
         echo preemptirqsoff > current_tracer; echo 0 > tracing_on; echo > trace; echo nofunction-trace > trace_options\n\
         echo 0 > tracing_max_latency; echo 1 > tracing_on; sleep 0.3; echo 0 > tracing_on; cat trace"
    );
    let done = stage.xtask(&["tracefs", "shell", "--no-install", "-c", &commands])?;
    let text = done.code(0)?.stdout;
    let calls = |part: &str| -> Vec<String> {
        let calls = part.lines().filter(|line| line.contains(" <-"));
        calls.map(str::to_owned).collect()
    };
    let (first, rest) = text.split_once("A\n1\n").context("no A")?;
    ensure!(
        first.starts_with("0\n") && first.contains("latency_max"),
        "{first}"
    );
    ensure!(calls(first).is_empty(), "{first}");
    let with = calls(between(rest, "", "B\n")?);
    ensure!(
        !with.is_empty()
            && with
                .iter()
                .all(|call| !call.contains("takt_kernel::trace")
                    && !call.contains("takt_kernel::probe")),
        "{rest}"
    );
    let after = between(rest, "B\n", "C\n")?;
    ensure!(
        after.contains("sched_switch: ") && calls(after).is_empty(),
        "{after}"
    );
    let (_, off) = rest.split_once("C\n").context("no C")?;
    ensure!(
        off.contains("latency_max") && calls(off).is_empty(),
        "{off}"
    );
    Ok(())
}

/// A record of the tracer `function` without what stands before it, and the first two functions of its stack.
type Followed<'t> = (&'t str, [&'t str; 2]);

/// The records of functions, and the stacks that follow them in the same context: an interrupt may come in between, and
/// other threads behind it.
fn followed(trace: &str) -> Result<Vec<Followed<'_>>> {
    let lines: Vec<_> = trace
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    // Without a stack so far, by context.
    let mut open: BTreeMap<(&str, bool), &str> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((head, text)) = line.split_once(": ") else {
            continue;
        };
        let (thread, flags) = head.split_once('[').context("no CPU")?;
        let flags = flags.split_whitespace().nth(1).context("no flags")?;
        let context = (thread.trim(), flags.contains(['h', 'H', 'z', 'Z']));
        if text.contains(" <-") {
            let before = open.insert(context, text);
            ensure!(
                before.is_none(),
                "no stack between `{before:?}` and `{line}`"
            );
        } else if text == "<stack trace>" {
            let Some(call) = open.remove(&context) else {
                ensure!(found.is_empty(), "`{line}` follows nothing");
                continue;
            };
            let functions = lines[at + 1..]
                .iter()
                .map_while(|line| line.strip_prefix(" => "));
            let mut functions = functions.filter(|name| !name.ends_with(" (inlined)"));
            let (Some(own), Some(caller)) = (functions.next(), functions.next()) else {
                bail!("less than two functions behind `{line}`");
            };
            found.push((call, [own, caller]));
        }
    }
    Ok(found)
}

/// The thread that carries out what is written is not what a trace consists of, unless it is asked for; interrupts that come
/// while it runs are there. What is traced is listed, and what cannot be with the reason.
pub(super) fn control_thread_left_out(stage: &Stage) -> Result<()> {
    const ROUND: &str =
        "sleep 0.2; echo 0 > tracing_on; cat trace; echo @@@; echo > trace; echo 1 > tracing_on";
    let commands = format!(
        "echo function > current_tracer; cat set_ftrace_pid | head -1; echo @@@; {ROUND}; cat saved_cmdlines; echo @@@\n\
         grep 'timerlat::expired ' enabled_functions; grep -c '^[^#]' enabled_functions; wc -l available_filter_functions\n\
         grep timer_interrupt_idle enabled_functions; grep -c ring enabled_functions\n\
         echo timer_interrupt_idle > set_ftrace_filter; tail -3 error_log; echo @@@\n\
         echo function_graph > current_tracer; {ROUND}; echo nop > current_tracer; grep -c '^[^#]' enabled_functions"
    );
    let done = stage.xtask(&["tracefs", "shell", "--no-install", "-c", &commands])?;
    let text = done.stdout;
    let [pids, trace, threads, list, graph, end] = text.split("@@@\n").collect::<Vec<_>>()[..]
    else {
        bail!("{text}");
    };
    ensure!(pids == "no pid\n", "{pids}");
    let calls = |task: &str| -> Vec<&str> {
        let of_task = |line: &&str| line.trim_start().starts_with(task) && line.contains(" <-");
        trace.lines().filter(of_task).collect()
    };
    let own: Vec<_> = (calls("control-").into_iter())
        .filter(|line| !line.contains(" [000] dNh") && !line.contains(" [000] d.h"))
        .collect();
    ensure!(own.is_empty(), "{}", own.join("\n"));
    ensure!(calls("cyclic/0-").len() > 100, "{trace}");
    ensure!(threads.contains(" control\n"), "{threads}");
    let lines: Vec<_> = list.lines().collect();
    ensure!(
        matches!(lines[..], [expired, enabled, all, idle, ring, ..]
            if expired.ends_with("timerlat::expired ->takt_function_trace_others")
                && Some(enabled) == all.split(' ').next()
                && idle.starts_with("# takt_kernel::expiry::timer_interrupt_idle: never, ")
                && ring.parse::<u32>().is_ok_and(|nr| nr > 10)),
        "{list}"
    );
    contains(
        list,
        "set_ftrace_filter: error: Cannot be traced: compiled without an entry",
    )?;
    ensure!(
        graph.contains("workload::account") && !graph.contains("control::publish"),
        "{graph}"
    );
    ensure!(end.lines().last() == Some("0"), "{end}");
    Ok(())
}

/// Commands of functions act at the very entry, as often as they may, and the functions are patched for as long as they
/// are there.
pub(super) fn commands(stage: &Stage) -> Result<()> {
    const COMMANDS: &str = "\
        echo timerlat:timerlat_irq > set_event; sleep 0.003; echo 'expired:traceoff:2' > set_ftrace_filter; cat set_ftrace_filter\n\
        grep -- '->' enabled_functions; echo > trace; sleep 0.01; cat tracing_on; grep -c traceoff:count=1 set_ftrace_filter; grep -c timerlat_irq: trace\n\
        echo 1 > tracing_on; sleep 0.01; cat tracing_on; echo 1 > tracing_on; sleep 0.01; cat tracing_on; grep -c traceoff:count=0 set_ftrace_filter; grep -c timerlat_irq: trace; echo ---\n\
        echo '!expired:traceoff:0' >> set_ftrace_filter; cat set_ftrace_filter; grep -c -- '->' enabled_functions; echo '!expired:traceoff' >> set_ftrace_filter\n\
        echo > trace; echo 'expired:stacktrace:3' >> set_ftrace_filter; sleep 0.01; cat trace; echo '!expired:stacktrace' >> set_ftrace_filter; echo ---\n\
        echo 0 > tracing_on; echo > trace; echo 'expired:traceon' >> set_ftrace_filter; sleep 0.01; cat tracing_on; grep -c traceon:unlimited set_ftrace_filter; grep -c timerlat_irq: trace; echo '!expired:traceon' >> set_ftrace_filter; echo ---\n\
        echo > set_event; echo function > current_tracer; echo '*timerlat::expired' 'expired:traceoff:1' > set_ftrace_filter; cat set_ftrace_filter; echo > trace; sleep 0.01; cat trace | grep '<-'; echo ---\n\
        echo '*:traceoff' >> set_ftrace_filter; echo 'expired:traceoff:x' >> set_ftrace_filter; echo 'nosuch:traceoff' >> set_ftrace_filter; grep -c : set_ftrace_filter; grep error: error_log";
    let words = [
        "tracefs",
        "shell",
        "--no-install",
        "--icount",
        "--append",
        "workload=timerlat",
        "-c",
        COMMANDS,
    ];
    let done = stage.xtask(&words)?.code(0)?;
    let parts: Vec<_> = done.stdout.split("---\n").collect();
    let [off, stacks, on, traced, refused] = parts[..] else {
        bail!("{}", done.stdout);
    };
    const ALL: &str = "#### all functions enabled ####\n";
    const NAME: &str = "takt_timerlat::workload::timerlat::expired";
    // The function that records timerlat_irq stops the recording before that, twice; the third time it goes on.
    let expected = format!(
        "{ALL}{NAME}:traceoff:count=2\n{NAME} ->takt_function_commands\n0\n1\n0\n0\n1\n1\n10\n"
    );
    ensure!(off == expected, "{off}");
    let stacks = stacks
        .strip_prefix(&*format!("{ALL}0\n"))
        .context(stacks.to_owned())?;
    ensure!(stacks.matches("<stack trace>").count() == 3, "{stacks}");
    ensure!(
        stacks.matches(&format!("\n => {NAME}\n")).count() == 3,
        "{stacks}"
    );
    // The entry comes before the event, which is recorded the first time.
    // Ten milliseconds, wherever they begin.
    ensure!(["1\n1\n10\n", "1\n1\n11\n"].contains(&on), "{on}");
    let entry = traced.strip_prefix(&*format!("{NAME}\n{NAME}:traceoff:count=1\n"));
    let entry = entry.context(traced.to_owned())?;
    // The entry that stops the recording is the last one of it.
    ensure!(
        entry.lines().count() == 1 && entry.contains(&format!(" {NAME} <-")),
        "{traced}"
    );
    let mut lines = refused.lines();
    ensure!(
        lines.next().is_some_and(|nr| nr.parse() == Ok(2)),
        "{refused}"
    );
    for what in [
        "There is no such command",
        "There is room for 128 commands, each of one function",
        "`x` is no number of times",
        "No such function",
    ] {
        ensure!(
            lines.next().is_some_and(|line| line.ends_with(what)),
            "{refused}"
        );
    }
    contains(
        &done.stderr,
        "tracefs: echo: write error: No space left on device",
    )
}
