//! The session of Linux's ftrace document (Documentation/trace/ftrace.rst) and of a tutorial on function_graph, typed file
//! by file into the shell and, where there is FUSE, on a mount with real `cat` and `echo`: the same script, and of both the
//! output is held against the document's format line by line.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;

use super::tracefs::{Files, contains, with_mount};
use super::{Done, Stage};

/// Lines of a wrong output that are shown.
const SHOWN: usize = 40;
/// What stands before the output of a step.
const MARK: &str = "step ";

/// What is typed, and what has to come of it: lines that begin with
///
/// - `=` are literal,
/// - `~` are an expression for one line, `+` for one or more, `*` for any number.
type Step = (&'static str, &'static [&'static str]);

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

/// What stands before the message of a record in the ordinary format.
const HEAD: &str = r" {0,15}\S+-\d+ +\[000\] [d.][N.][zZh.][0-9a-f.] +\d+\.\d{9}: ";

/// The session. In it `LATENCY tracer` is the beginning of the latency format, `PLACES` the lines about its ends, `LEGEND`
/// and `COLUMNS` the legends, and `HEAD` what is before a record's message.
const SESSION: [Step; 42] = [
    ("cat current_tracer", &["=nop"]),
    (
        "cat available_tracers",
        &[
            "=nop sched_switch irqsoff preemptoff preemptirqsoff wakeup wakeup_rt hwlat function function_graph",
        ],
    ),
    // irqsoff
    (
        "echo 0 > tracing_on; echo irqsoff > current_tracer; echo 0 > tracing_max_latency; echo 1 > tracing_on\n\
         sleep 0.3; echo 0 > tracing_on; cat trace",
        &[
            "LATENCY irqsoff",
            "PLACES",
            "LEGEND",
            r"~^ *\S+-\d+ +0d[N.][zZh.][0-9a-f.]    0\.000us[ +!#*]: \S.*$",
            r"~^ *\S+-\d+ +0d[N.][zZh.][0-9a-f.] +\d+\.\d{3}us : latency_max: comm=\S+ pid=\d+ latency=\d+ ns started_at=\S.* ended_at=\S.*$",
        ],
    ),
    ("cat tracing_max_latency", &[r"~^\d+(\.\d{3})?$"]),
    // Any number but 0 is a maximum that nothing here reaches.
    (
        "echo 100000000 > tracing_max_latency; cat tracing_max_latency\n\
         echo 1 > tracing_on; sleep 0.05; echo 0 > tracing_on; cat tracing_max_latency",
        &["=100000000", "=100000000"],
    ),
    (
        "cat tracing_thresh; echo 3 > tracing_thresh; cat tracing_thresh; echo 0 > tracing_thresh; cat tracing_thresh",
        &["=0", "=3", "=0"],
    ),
    // preemptoff and preemptirqsoff
    (
        "echo preemptoff > current_tracer; cat current_tracer; cat trace",
        &["=preemptoff", "=# tracer: preemptoff", "=#"],
    ),
    (
        "echo preemptirqsoff > current_tracer; echo 0 > tracing_max_latency; echo 1 > tracing_on\n\
         sleep 0.3; echo 0 > tracing_on; cat latency_trace",
        &[
            "LATENCY preemptirqsoff",
            "PLACES",
            "LEGEND",
            r"~^ *\S+-\d+ +0[d.][N.][zZh.][0-9a-f.]    0\.000us[ +!#*]: \S.*$",
            r"~^ *\S+-\d+ +0[d.][N.][zZh.][0-9a-f.] +\d+\.\d{3}us : latency_max: ",
        ],
    ),
    // wakeup: from the wake-up to the switch
    (
        "echo wakeup > current_tracer; echo 0 > tracing_max_latency; echo 1 > tracing_on\n\
         sleep 0.3; echo 0 > tracing_on; cat trace",
        &[
            "LATENCY wakeup",
            "LEGEND",
            r"~^ *\S+-\d+ +0d\S{3}    0\.000us[ +!#*]: sched_wakeup: comm=\S+ pid=\d+ prio=\d+ target_cpu=000$",
            r"*^ *\S+-\d+ +0\S{4} +\d+\.\d{3}us[ +!#*]: sched_\w+: ",
            r"~^ *\S+-\d+ +0d\S{3} +\d+\.\d{3}us[ +!#*]: latency_max: comm=\S+ pid=\d+ latency=\d+ ns ",
            r"~^ *\S+-\d+ +0d\S{3} +\d+\.\d{3}us : sched_switch: prev_comm=\S+ .* ==> next_comm=\S+ ",
        ],
    ),
    (
        "echo verbose > trace_options; cat trace; echo noverbose > trace_options",
        &[
            "LATENCY wakeup",
            "=#",
            r"+^ {0,15}\S+ +\d+ +0 \d+ [0-9a-f]{8} [0-9a-f]{8} \[[0-9a-f]{8}\] \d+\.\d{6}ms \(\+\d+\.\d{6}ms\): \w+: ",
        ],
    ),
    (
        "echo wakeup_rt > current_tracer; cat current_tracer; echo nop > current_tracer; cat set_event",
        &["=wakeup_rt"],
    ),
    // hwlat
    (
        "cat hwlat_detector/window hwlat_detector/width hwlat_detector/mode\n\
         echo 500 > hwlat_detector/width; echo 2000 > hwlat_detector/window; cat hwlat_detector/width hwlat_detector/window",
        &["=1000000", "=500000", "=[none]", "=500", "=2000"],
    ),
    // Filters, as the document has them.
    (
        "cat set_ftrace_filter set_ftrace_notrace set_ftrace_pid",
        &[
            "=#### all functions enabled ####",
            "=#### no functions disabled ####",
            "=no pid",
        ],
    ),
    (
        // A path is held against whole names, so this is none.
        "echo timerlat::expired sleep_until > set_ftrace_filter; cat set_ftrace_filter; echo > error_log",
        &["=#### all functions enabled ####"],
    ),
    (
        "echo *timerlat::expired sleep_until > set_ftrace_filter; cat set_ftrace_filter",
        &[
            "=takt_kernel::time::sleep_until",
            "=takt_timerlat::workload::timerlat::expired",
        ],
    ),
    (
        "echo > trace; echo function > current_tracer; echo 1 > tracing_on; sleep 0.1; echo 0 > tracing_on; cat trace",
        &[
            "=# tracer: function",
            "COLUMNS",
            "+^HEADtakt_(kernel::time::sleep_until <-\\S|timerlat::workload::timerlat::expired <-\\S).*$",
        ],
    ),
    (
        "echo noprint-parent > trace_options; cat trace; echo print-parent > trace_options",
        &[
            "=# tracer: function",
            "COLUMNS",
            "+^HEADtakt_(kernel::time::sleep_until|timerlat::workload::timerlat::expired)$",
        ],
    ),
    (
        "echo sym-addr > trace_options; cat trace; echo nosym-addr > trace_options",
        &[
            "=# tracer: function",
            "COLUMNS",
            "+^HEADtakt_\\S+ <[0-9a-f]{16}> <-\\S.* <[0-9a-f]{16}>$",
        ],
    ),
    (
        "echo raw > trace_options; cat trace; echo noraw > trace_options",
        &["+^\\d+ 0 \\d+ \\d+ \\d+ \\d+$"],
    ),
    (
        "echo hex > trace_options; cat trace; echo nohex > trace_options",
        &["+^[0-9a-f]{16}( [0-9a-f]{16}){5}$"],
    ),
    (
        "echo '*semaphore*give*' '*give_up' > set_ftrace_filter; cat set_ftrace_filter",
        &["+^<takt_kernel::sync::semaphore::Semaphore>::(begin_give|give_\\w+)$"],
    ),
    (
        "echo '!*give_up' >> set_ftrace_filter; cat set_ftrace_filter",
        &["+^<takt_kernel::sync::semaphore::Semaphore>::(begin_give|give_[^u]\\w+)$"],
    ),
    (
        "echo sleep_until >> set_ftrace_filter; cat set_ftrace_filter",
        &[
            "+^<takt_kernel::sync::semaphore::Semaphore>::(begin_give|give_[^u]\\w+)$",
            "=takt_kernel::time::sleep_until",
        ],
    ),
    (
        "echo 'takt_timerlat::workload::load*' > set_ftrace_filter; cat set_ftrace_filter",
        &["+^takt_timerlat::workload::load::"],
    ),
    (
        "echo nonsense > set_ftrace_filter; cat set_ftrace_filter error_log; echo > error_log",
        &[
            "=#### all functions enabled ####",
            r"~^\[ +\d+\.\d{6}\] set_ftrace_filter: error: No such function$",
            "=  Command: nonsense",
            "=           ^",
        ],
    ),
    (
        "echo -n sleep_until > set_ftrace_filter; cat set_ftrace_filter; echo > set_ftrace_filter; cat set_ftrace_filter",
        &[
            "=takt_kernel::time::sleep_until",
            "=#### all functions enabled ####",
        ],
    ),
    (
        "echo '*preempt*' '*lock*' > set_ftrace_notrace; cat set_ftrace_notrace",
        &["+(preempt|lock)"],
    ),
    (
        "echo > trace; echo 1 > tracing_on; sleep 0.05; echo 0 > tracing_on; cat trace",
        &[
            "=# tracer: function",
            "COLUMNS",
            // Whoever calls may be anything.
            "+^HEAD(.{0,6}|(core|takt|<|_).*) <-\\S",
        ],
    ),
    (
        "echo > set_ftrace_notrace; cat set_ftrace_notrace",
        &["=#### no functions disabled ####"],
    ),
    // One thread's functions.
    (
        "echo 10 > set_ftrace_pid; cat set_ftrace_pid; cat saved_cmdlines",
        &["=10", "*^[0-9] \\S+$", "=10 timerlat/0", "*^\\d+ \\S+$"],
    ),
    (
        "echo > trace; echo 1 > tracing_on; sleep 0.1; echo 0 > tracing_on; cat trace",
        &[
            "=# tracer: function",
            "COLUMNS",
            "+^      timerlat/0-10 .*: \\S.* <-\\S",
        ],
    ),
    (
        "echo 0 >> set_ftrace_pid; cat set_ftrace_pid; echo > set_ftrace_pid; cat set_ftrace_pid",
        &["=0", "=10", "=no pid"],
    ),
    // function_graph
    (
        "echo nop > current_tracer; echo '*workload::account' > set_graph_function; cat set_graph_function\n\
         echo > trace; echo function_graph > current_tracer; echo 1 > tracing_on; sleep 0.1; echo 0 > tracing_on; cat trace",
        &[
            "=takt_timerlat::workload::account",
            "=# tracer: function_graph",
            "=#",
            "=# CPU  DURATION                  FUNCTION CALLS",
            "=# |     |   |                     |   |   |   |",
            r"+^ 0\) ( {14}\|  takt_timerlat::workload::account\(\) \{|[ +!#*] \d+\.\d{3} us +\|  (  \S.*\(\);|\}|takt_timerlat::workload::account\(\);)|  (=|<)=+(=|>) \|)$",
        ],
    ),
    (
        "echo funcgraph-proc > trace_options; echo 1 > options/funcgraph-tail; cat trace\n\
         echo nofuncgraph-proc nofuncgraph-tail > trace_options",
        &[
            "=# tracer: function_graph",
            "=#",
            "=# CPU  TASK/PID         DURATION                  FUNCTION CALLS",
            "=# |     |    |           |   |                     |   |   |   |",
            r"+^ 0\)   timerla-10   \|( {15}\|  takt_timerlat::workload::account\(\) \{| [ +!#*] \d+\.\d{3} us +\|  (  \S.*\(\);|\} /\* takt_timerlat::workload::account \*/|takt_timerlat::workload::account\(\);)|   (=|<)=+(=|>) \|)$",
        ],
    ),
    (
        "echo nofuncgraph-cpu nofuncgraph-duration > trace_options; cat trace; echo funcgraph-cpu funcgraph-duration > trace_options",
        &[
            "=# tracer: function_graph",
            "=#",
            "=#               FUNCTION CALLS",
            "=#               |   |   |   |",
            r"+^(takt_timerlat::workload::account\(\)( \{|;)|  \S.*\(\);|\}|  (=|<)=+(=|>) \|)$",
        ],
    ),
    (
        "cat max_graph_depth; echo 1 > max_graph_depth; cat max_graph_depth; echo > trace\n\
         echo 1 > tracing_on; sleep 0.05; echo 0 > tracing_on; cat trace; echo 0 > max_graph_depth; cat max_graph_depth",
        &[
            "=0",
            "=1",
            "=# tracer: function_graph",
            "=#",
            "=# CPU  DURATION                  FUNCTION CALLS",
            "=# |     |   |                     |   |   |   |",
            r"+^ 0\) [ +!#*] \d+\.\d{3} us +\|  takt_timerlat::workload::account\(\);$",
            "=0",
        ],
    ),
    (
        "echo '*record*' > set_graph_notrace; cat set_graph_notrace; echo > set_graph_notrace; echo > set_graph_function\n\
         cat set_graph_function set_graph_notrace function_graph_stats",
        &[
            "+record",
            "=#### all functions enabled ####",
            "=#### no functions disabled ####",
            r"~^overrun: \d+$",
            r"~^missed returns: \d+$",
            r"~^skipped: \d+$",
        ],
    ),
    // The options of function_graph are there while it is chosen.
    (
        "cat trace_options; echo nop > current_tracer; cat trace_options",
        &[
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
            "=funcgraph-overhead",
            "=funcgraph-cpu",
            "=nofuncgraph-proc",
            "=funcgraph-duration",
            "=nofuncgraph-abstime",
            "=funcgraph-irqs",
            "=nofuncgraph-tail",
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
        ],
    ),
    // trace_marker, sched_switch
    (
        "echo > trace; echo 1 > tracing_on; echo hello world > trace_marker; echo 0 > tracing_on; cat trace",
        &["=# tracer: nop", "COLUMNS", "~^HEADmarker: hello world$"],
    ),
    (
        "cat latency_trace",
        &[
            "LATENCY nop",
            "LEGEND",
            r"~^ *\S+-\d+ +0\S{4} +0\.000us : marker: hello world$",
        ],
    ),
    (
        "echo > trace; echo sched_switch > current_tracer; echo 1 > tracing_on; sleep 0.05; echo 0 > tracing_on\n\
         cat trace; echo nop > current_tracer",
        &[
            "=# tracer: sched_switch",
            "COLUMNS",
            r"+^HEAD *\d+: *\d+:[RST] +(\+|==>) +\d+: *\d+:[RST]$",
        ],
    ),
    // Another tracer begins anew; nop leaves what there is.
    (
        "echo 1 > tracing_on; echo hello > trace_marker; echo 0 > tracing_on; echo sched_switch > current_tracer\n\
         cat trace; echo 1 > tracing_on; sleep 0.02; echo 0 > tracing_on; echo nop > current_tracer; cat trace",
        &[
            "=# tracer: sched_switch",
            "COLUMNS",
            "=# tracer: nop",
            "COLUMNS",
            "+^HEADsched_(wakeup|switch): ",
        ],
    ),
];

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
        None if line == "PLACES" => all(&[r"~^#  => started at: \S", r"~^#  => ended at:   \S", "=#"]),
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

/// The header's latency is that in `tracing_max_latency`.
fn latency_is_the_maximum(output: &str) -> Result<()> {
    let header = output
        .lines()
        .find_map(|line| line.strip_prefix("# latency: "))
        .and_then(|rest| rest.split_once(" us"))
        .map(|(latency, _)| latency)
        .context("there is no header")?;
    let begin = format!("{MARK}3");
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
        stderr.matches(refused).count() == 2,
        "two words are refused:\n{stderr}"
    );
    Ok(())
}

/// On a mount.
pub(super) fn mount(stage: &Stage) -> Result<()> {
    let dir = stage.scratch.path().join("ftrace");
    fs::create_dir(&dir)?;
    if let Err(error) = crate::tracefs::mount::check(&dir) {
        eprintln!("\nNOT TESTED: the ftrace document on a mount. {error:#}\n");
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
         echo 1 > tracing_on; cat trace_pipe & sleep 0.3; echo nop > current_tracer; wait; echo > set_graph_function",
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
    let commands = "cat set_ftrace_filter max_graph_depth set_ftrace_pid; echo '*preempt' > set_ftrace_notrace\n\
                    echo 7 > tracing_thresh";
    let done = stage.xtask(&["tracefs", "shell", "--attach", "tracefs", "-c", commands])?;
    let seen = done.code(0)?.stdout;
    ensure!(
        seen == "takt_kernel::time::sleep_until\n3\n10\n",
        "the other sees\n{seen}"
    );
    let here = files.sh("cat set_ftrace_notrace tracing_thresh")?;
    ensure!(
        here == "takt_kernel::sched::preempt\n7\n",
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
