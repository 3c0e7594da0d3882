//! What the shell has of a shell: pipes, paths, lines that go on.

use anyhow::{Result, ensure};

use super::Stage;

/// What is typed, and what comes of it.
const SESSION: [(&str, &str); 19] = [
    (
        "cd /sys/kernel/debug/tracing/events; pwd",
        "/sys/kernel/tracing/events\n",
    ),
    (
        "cd sched/../timerlat; ls",
        "enable\nfilter\ntimerlat_irq\ntimerlat_thread\n",
    ),
    (
        "ls -l timerlat_irq | head -3",
        "total 0\n-rw-r--r-- 1 root root 0 Jan  1  1970 enable\n-rw-r--r-- 1 root root 0 Jan  1  1970 filter\n",
    ),
    (
        "ls -ld /debug/tracing/events",
        "drwxr-xr-x 2 root root 0 Jan  1  1970 /debug/tracing/events\n",
    ),
    (
        "cd -; cat /debug/tracing/current_tracer",
        "/sys/kernel/tracing/events\nnop\n",
    ),
    ("cd; cat trace_clock \\\n tracing_on | tail -1", "1\n"),
    ("head -1 README", "tracing mini-HOWTO, of Takt:\n"),
    (
        "wc -l current_tracer tracing_on",
        "1 current_tracer\n1 tracing_on\n2 total\n",
    ),
    (
        "grep -c nop current_tracer tracing_on",
        "current_tracer:1\ntracing_on:0\n",
    ),
    (
        "tail -n 1 current_tracer tracing_on",
        "==> current_tracer <==\nnop\n\n==> tracing_on <==\n1\n",
    ),
    (
        "echo sched:sched_switch > set_event; cat trace_pipe | head -5 | wc -l; echo > set_event",
        "5\n",
    ),
    (
        "cat available_filter_functions | grep -E 'timerlat::(expired|account)$' > set_ftrace_filter; wc -l < x; \
         cat set_ftrace_filter",
        "",
    ),
    (
        "cat available_filter_functions | grep 'timerlat::expired$' > set_ftrace_filter; cat set_ftrace_filter | wc -l",
        "1\n",
    ),
    (
        "cat trace_clock; echo mono > trace_clock; cat trace_clock; echo local > trace_clock",
        "[local] global perf mono mono_raw boot\nlocal global perf [mono] mono_raw boot\n",
    ),
    (
        "echo 't[!b-z]kt_t?merlat*::ex[a-p]ired' > set_ftrace_filter; cat set_ftrace_filter",
        "takt_timerlat::workload::timerlat::expired\n",
    ),
    ("echo one \\\n  two | grep -o 't.*'", "two\n"),
    (
        "echo 0 > tracing_on; echo > trace; ls | echo no | cat trace_clock | grep -v o",
        "",
    ),
    (
        "echo a |\n  grep b; echo c | cat tracing_on > trace_marker | wc -c",
        "0\n",
    ),
    (
        "cat nothing | head; cd current_tracer; cd x; echo a | x",
        "",
    ),
];

/// What went wrong, in this order.
const ERRORS: [&str; 5] = [
    "tracefs: syntax error near unexpected token `<'",
    "cat: nothing: No such file or directory",
    "tracefs: cd: current_tracer: Not a directory",
    "tracefs: cd: x: No such file or directory",
    "tracefs: x: command not found",
];

/// Typed line by line, in one session.
pub(super) fn pipes_and_paths(stage: &Stage) -> Result<()> {
    let typed: Vec<_> = SESSION.iter().map(|(typed, _)| *typed).collect();
    let marked = format!("{}\n", typed.join("\necho ---\n"));
    let done = stage
        .type_in(&["tracefs", "shell", "--no-install"], &marked)?
        .code(127)?;
    let said: Vec<_> = done.stdout.split("---\n").collect();
    for ((typed, expected), said) in SESSION.iter().zip(&said) {
        ensure!(said == expected, "{typed}\nsays\n{said}not\n{expected}");
    }
    ensure!(said.len() == SESSION.len(), "{}", done.stdout);
    let errors: Vec<_> = (done.stderr.lines())
        .filter(|line| line.contains(": ") && !line.contains("image"))
        .collect();
    ensure!(errors == ERRORS, "{}", done.stderr);
    Ok(())
}
