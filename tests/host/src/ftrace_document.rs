//! The session of Linux's ftrace document (Documentation/trace/ftrace.rst) and of a tutorial on function_graph, typed file
//! by file into the shell and, where there is FUSE, on a mount with real `cat` and `echo`: the same script, and of both the
//! output is held against the document's format line by line.

mod session;

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;

use self::session::SESSION;
use super::tracefs::{Files, contains, with_mount};
use super::{Done, Stage};

/// Lines of a wrong output that are shown.
const SHOWN: usize = 40;
/// What stands before the output of a step.
const MARK: &str = "step ";

/// The header of ftrace's ordinary format behind its first line.
const COLUMNS: [&str; 10] = [
    "=#",
    r"~# entries-in-buffer/entries-written: \d+/\d+   #P:1",
    "=#",
    "=#                                _-----=> irqs-off",
    "=#                               / _----=> need-resched",
    "=#                              | / _---=> hardirq/softirq",
    "=#                              || / _--=> preempt-depth",
    "=#                              ||| /     delay",
    "=#           TASK-PID     CPU#  ||||   TIMESTAMP  FUNCTION",
    "=#              | |         |   ||||      |         |",
];

/// The legend of the latency format.
const LEGEND: [&str; 9] = [
    "=#",
    "=#                  _------=> CPU#",
    "=#                 / _-----=> irqs-off",
    "=#                | / _----=> need-resched",
    "=#                || / _---=> hardirq/softirq",
    "=#                ||| / _--=> preempt-depth",
    "=#                |||| /         delay",
    "=#  cmd     pid   ||||| time      |   caller",
    "=#     \\   /      |||||  \\        |   /",
];

/// What `trace_options` shows whatever the tracer.
const OPTIONS: [&str; 13] = [
    "=print-parent",
    "=nosym-offset",
    "=nosym-addr",
    "=noverbose",
    "=noraw",
    "=nohex",
    "=nobin",
    "=nostacktrace",
    "=nofunc_stack_trace",
    "=annotate",
    "=overwrite",
    "=nolatency-format",
    "=nofunction-trace",
];

/// What stands before the message of a record in the ordinary format.
const HEAD: &str = r" {0,15}\S+-\d+ +\[000\] [d.][N.][zZh.][0-9a-f.] +\d+\.\d{9}: ";

/// The script, which says before each step's output which one it is.
fn script() -> String {
    let steps = SESSION.iter().enumerate();
    steps
        .map(|(number, (typed, _))| format!("echo '{MARK}{number}'\n{typed}\n"))
        .collect()
}

/// The lines that an expected line stands for.
fn expand(line: &str) -> Vec<String> {
    let all = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    match line.split_once(' ') {
        None if line == "LEGEND" => all(&LEGEND),
        None if line == "COLUMNS" => all(&COLUMNS),
        None if line == "OPTIONS" => all(&OPTIONS),
        None if line == "PLACES" => all(&[
            r"~^#  => started at: \S",
            r"~^#  => ended at:   \S",
            r"~^#  => measured:   from the instruction behind cli ",
            r"~^# {17}stamp to its return",
            "=#",
        ]),
        None if line == "WAKEUP" => all(&[
            "=#  => measured:   from the trace point sched_wakeup to that of sched_switch",
            "=#",
        ]),
        Some(("LATENCY", tracer)) => vec![
            format!("=# tracer: {tracer}"),
            "=#".into(),
            format!(r"~^# {tracer} latency trace v1\.1\.5 on takt-\d"),
            format!("=# {}", "-".repeat(68)),
            r"~^# latency: \d+\.\d{3} us, #\d+/\d+, CPU#0 \| \(M:preempt VP:0, KP:0, SP:0 HP:0 #P:1\)$"
                .into(),
            "=#    -----------------".into(),
            r"~^#    \| task: \S+-\d+ \(uid:0 nice:0 policy:[01] rt_prio:\d+\)$".into(),
            "=#    -----------------".into(),
            r"~^#  => clock: (tcg|kvm), a nanosecond is ".into(),
        ],
        _ => vec![line.replace("HEAD", HEAD)],
    }
}

/// Holds the output of a step against what is expected.
fn judge(output: &[&str], expected: &[&str]) -> Result<()> {
    let mut lines = output.iter().peekable();
    for pattern in expected.iter().flat_map(|line| expand(line)) {
        let (kind, text) = pattern.split_at(1);
        if kind == "=" {
            let line = lines.next();
            ensure!(line == Some(&text), "`{text}` is expected, not {line:?}");
            continue;
        }
        let expression = Regex::new(text)?;
        let mut nr = 0;
        while (kind != "~" || nr == 0) && lines.next_if(|line| expression.is_match(line)).is_some()
        {
            nr += 1;
        }
        ensure!(
            nr > 0 || kind == "*",
            "`{text}` does not match {:?}",
            lines.peek()
        );
    }
    match lines.next() {
        Some(line) => bail!("nothing more is expected, but there is `{line}`"),
        None => Ok(()),
    }
}

/// Holds the output of the script against what is expected.
fn judge_all(output: &str) -> Result<()> {
    let mut wrong = Vec::new();
    for (number, (typed, expected)) in SESSION.iter().enumerate() {
        let begin = format!("{MARK}{number}");
        let lines: Vec<_> = output
            .lines()
            .skip_while(|line| *line != begin)
            .skip(1)
            .take_while(|line| !line.starts_with(MARK))
            .collect();
        if let Err(error) = judge(&lines, expected) {
            let lines: Vec<_> = lines.iter().take(SHOWN).copied().collect();
            wrong.push(format!("{typed}\n{error}; it says\n{}", lines.join("\n")));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    latency_is_the_maximum(output)
}

/// The step that asks for the maximum.
const MAXIMUM: &str = "cat tracing_max_latency";

/// The header's latency is that in `tracing_max_latency`.
fn latency_is_the_maximum(output: &str) -> Result<()> {
    let header = output
        .lines()
        .find_map(|line| line.strip_prefix("# latency: "))
        .and_then(|rest| rest.split_once(" us"))
        .map(|(latency, _)| latency)
        .context("there is no header")?;
    let step = SESSION
        .iter()
        .position(|(typed, _)| *typed == MAXIMUM)
        .context("nobody asks for the maximum")?;
    let begin = format!("{MARK}{step}");
    let max = output
        .lines()
        .skip_while(|line| *line != begin)
        .nth(1)
        .context("there is no maximum")?;
    ensure!(
        header.trim_end_matches(".000") == max,
        "the header says {header}, tracing_max_latency {max}"
    );
    Ok(())
}

/// By the shell.
pub(super) fn shell(stage: &Stage) -> Result<()> {
    let words = ["tracefs", "shell", "--no-install", "-c", &script()];
    let Done { stdout, stderr, .. } = stage.xtask(&words)?;
    judge_all(&stdout)?;
    let refused = "echo: write error: Invalid argument";
    ensure!(
        stderr.matches(refused).count() == 3,
        "three words are refused:\n{stderr}"
    );
    Ok(())
}

/// On a mount.
pub(super) fn mount(stage: &Stage) -> Result<()> {
    let dir = stage.path().join("ftrace");
    fs::create_dir(&dir)?;
    if let Err(error) = takt_tracefs::mount::check(&dir) {
        tell!("\nNOT TESTED: the ftrace document on a mount. {error:#}\n");
        return Ok(());
    }
    with_mount(dir, |files: &Files| {
        judge_all(&files.sh(&format!("exec 2>/dev/null\n{}", script()))?)?;
        pipe_shows_calls(files)?;
        set_from_available(files)?;
        seen_by_others(stage, files)
    })
}

/// `trace_pipe` has braces and durations as well, and ends with the tracer.
fn pipe_shows_calls(files: &Files) -> Result<()> {
    let said = files.sh(
        "echo '*workload::account' > set_graph_function; echo > trace; echo function_graph > current_tracer\n\
         echo 1 > tracing_on; out=$(mktemp); cat trace_pipe > $out &\n\
         n=0; until grep -q '}' $out || [ $n = 200 ]; do sleep 0.1; n=$((n + 1)); done\n\
         echo nop > current_tracer; wait; echo > set_graph_function; cat $out; rm $out",
    )?;
    let call = Regex::new(r"(?m)^ 0\)   +\|  takt_timerlat::workload::account\(\) \{$")?;
    let end = Regex::new(r"(?m)^ 0\) [ +!#*] \d+\.\d{3} us +\|  \}$")?;
    ensure!(
        call.is_match(&said) && end.is_match(&said),
        "no calls in\n{said}"
    );
    Ok(())
}

/// What is in force is the guest's, so another process that attaches sees it, and what it sets is seen here.
fn seen_by_others(stage: &Stage, files: &Files) -> Result<()> {
    files.sh(
        "echo sleep_until > set_ftrace_filter; echo 3 > max_graph_depth; echo 10 > set_ftrace_pid",
    )?;
    let commands = "cat set_ftrace_filter max_graph_depth set_ftrace_pid; echo '*wait::finish' > set_ftrace_notrace\n\
                    echo 7 > tracing_thresh";
    let run = files.run.display().to_string();
    let done = stage.xtask(&["tracefs", "shell", "--attach", &run, "-c", commands])?;
    let seen = done.code(0)?.stdout;
    ensure!(
        seen == "takt_kernel::time::sleep_until\n3\n10\n",
        "the other sees\n{seen}"
    );
    let here = files.sh("cat set_ftrace_notrace tracing_thresh")?;
    ensure!(
        here == "takt_kernel::wait::finish\n7\n",
        "from the other came\n{here}"
    );
    files.sh("echo > set_ftrace_filter; echo > set_ftrace_notrace; echo > set_ftrace_pid; echo 0 > max_graph_depth")?;
    Ok(())
}

/// What is listed can be written, although names have spaces in them and writers cut the list anywhere.
fn set_from_available(files: &Files) -> Result<()> {
    let said = files.sh(
        "cat available_filter_functions | dd bs=100 2>&1 >set_ftrace_notrace | grep -c error\n\
         diff available_filter_functions set_ftrace_notrace && echo same; echo > set_ftrace_notrace",
    )?;
    contains(&said, "0\nsame\n")
}
