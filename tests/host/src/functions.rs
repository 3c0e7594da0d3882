//! `latency-run --tracer`: functions by their names, and their calls as ftrace shows them.

use anyhow::{Result, ensure};

use super::Stage;

/// The tracer `function` with filters: every line of a function names one that was asked for.
pub(super) fn function(stage: &Stage) -> Result<()> {
    stage
        .latency_run(
            "function",
            "-d 20ms --tracer function --function-filter expired --function-filter *Semaphore*give* --function-notrace give_*",
        )?
        .code(0)?;
    let text = stage
        .xtask(&["trace", &stage.dir("function")])?
        .code(0)?
        .stdout;
    let calls: Vec<_> = text.lines().filter(|line| line.contains(" <-")).collect();
    let of = |name: &str| calls.iter().filter(|line| line.contains(name)).count();
    let (expired, gives) = (of("timerlat::expired <-"), of("begin_give <-"));
    ensure!(
        expired == 20 && gives >= 1 && calls.len() == expired + gives,
        "{expired} and {gives} of {} calls:\n{}",
        calls.len(),
        calls.join("\n")
    );
    stage
        .latency_run(
            "none",
            "-d 20ms --tracer function --function-filter no_such_thing",
        )?
        .code(1)?;
    Ok(())
}

/// The tracer `function_graph`: braces are opened and closed, and no function took longer than the run.
pub(super) fn graph(stage: &Stage) -> Result<()> {
    stage
        .latency_run("graph", "-d 20ms --tracer function_graph")?
        .code(0)?;
    let text = stage
        .xtask(&["trace", &stage.dir("graph"), "--format", "graph"])?
        .code(0)?
        .stdout;
    let count = |what: &str| text.lines().filter(|line| line.ends_with(what)).count();
    let (leaves, opened, closed) = (count("();"), count("() {"), count("}"));
    ensure!(
        leaves > 60 && opened > 20 && closed > 20 && closed <= opened,
        "{leaves} leaves, {opened} opened, {closed} closed:\n{text}"
    );
    // 20 ms pass in the run; net of waiting, no function takes a millisecond of that.
    ensure!(
        !text
            .lines()
            .any(|line| line.contains(") # ") && !line.contains("idle")),
        "a function took more than a millisecond:\n{text}"
    );
    Ok(())
}
