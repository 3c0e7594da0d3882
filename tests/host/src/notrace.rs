//! The tracer is not traced: it would come upon itself.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};

use super::Stage;
use takt_guest::Elf;
use takt_guest::disassembly::branch_targets;
use takt_guest::functions::Functions;
use takt_image::Recipe;

/// Where the tracer begins, by mangled names: what the entry of a function calls, and what a record function calls. What the
/// latter two call through pointers is compiled into them.
const BEGINS: [&str; 6] = [
    "5trace8function4slow",
    "5trace8function5hooks8dispatch",
    "5trace8function5graph11graph_entry",
    "5trace8function5graph12graph_return",
    "14divert_records6before",
    "14divert_records5after",
];

/// What ends a walk: a panic, a switch to another thread, and what only the report of a fault looks at.
const ENDS: [&str; 6] = [
    "4core9panicking",
    "_fail",
    "7preempt8too_deep",
    "6switch16preempt_schedule",
    "6switch7preempt",
    "6guards",
];

/// Nothing that the tracer calls while it records can be traced: no function that is reached from its beginnings has an entry
/// that is patched.
pub(super) fn by_the_code(_: &Stage) -> Result<()> {
    let recipe = Recipe::takt(0).with_features(&["function"]);
    let elf = Elf::open(&recipe.build()?.path)?;
    let traceable: BTreeSet<_> = Functions::of(&elf)?
        .available()
        .map(|function| function.address)
        .collect();
    let mut names = BTreeMap::new();
    for (address, name) in elf.functions() {
        names.entry(address).or_insert(name);
    }
    let is_one_of = |name: &str, parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let mut open: Vec<(u64, String)> = names
        .iter()
        .filter(|(_, name)| is_one_of(name, &BEGINS))
        .map(|(address, name)| (*address, name.clone()))
        .collect();
    for part in BEGINS {
        let is_there = open.iter().any(|(_, name)| name.contains(part));
        ensure!(is_there, "no function is called {part}");
    }
    let mut seen = BTreeSet::new();
    while let Some((address, way)) = open.pop() {
        let (begin, name) = (names.range(..=address).next_back())
            .with_context(|| format!("{way} leads to {address:#x}, which is no function"))?;
        if !seen.insert(*begin) || is_one_of(name, &ENDS) {
            continue;
        }
        ensure!(!traceable.contains(begin), "can be traced: {way}");
        let end = names.range(begin + 1..).next().map(|(next, _)| *next);
        let range = *begin..end.unwrap_or_else(|| elf.code_end());
        for target in branch_targets(&elf, range.clone()) {
            if !range.contains(&target) {
                let called = names.range(..=target).next_back();
                let called = called.map_or("?", |(_, name)| name);
                open.push((target, format!("{way} -> {called}")));
            }
        }
    }
    ensure!(seen.len() > 30, "only {} functions are reached", seen.len());
    Ok(())
}

/// Functions and, after every event, a stack or a filter: the guest goes on answering, and what was on is off again.
pub(super) fn by_a_session(stage: &Stage) -> Result<()> {
    let commands = "echo function > current_tracer; sleep 0.05; echo stacktrace > trace_options; echo 0 > tracing_on\n\
         cat tracing_on options/stacktrace; echo nostacktrace > trace_options\n\
         echo 'next_pid == 0' > events/sched/sched_switch/filter; echo 1 > tracing_on; sleep 0.05; echo 0 > tracing_on\n\
         echo nop > current_tracer; cat current_tracer; cat trace";
    let done = stage
        .xtask(&["tracefs", "shell", "--no-install", "-c", commands])?
        .code(0)?;
    ensure!(done.stdout.starts_with("0\n1\nnop\n"), "{}", done.stdout);
    let nr_calls = done.stdout.matches(" <-").count();
    ensure!(nr_calls > 100, "{nr_calls} calls:\n{}", done.stdout);
    Ok(())
}
