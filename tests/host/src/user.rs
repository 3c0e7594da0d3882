//! timerlat and cyclictest of threads in user space.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Stage;

/// Each activation has three latencies, each later than the one before, on each of two CPUs; the trace has them all, and what the
/// task itself does takes as long each time. At the end it is stopped.
pub(super) fn latencies(stage: &Stage) -> Result<()> {
    stage
        .latency_run("user", "-u -c 0-1 -d 50ms")?
        .code(0)?
        .says("         user          50 ")?
        .says("User latency, all together (ns)")?;
    let document = stage.document("user")?;
    for cpu in 0..2 {
        let figure = |which: &str, name: &str| document["cpus"][cpu][which][name].as_u64();
        for which in ["irq", "thread", "user"] {
            ensure!(figure(which, "count") == Some(50), "{document}");
        }
        let max = |which| figure(which, "max").unwrap_or(0);
        let least = figure("user", "min").unwrap_or(0);
        ensure!(
            max("irq") < max("thread") && max("thread") < least,
            "{document}"
        );
        ensure!(max("user") - least <= 2, "{document}");
    }
    let trace = stage.trace("user")?;
    let of = |event: &str| -> Vec<u64> {
        let records = trace.iter().filter(|it| it["event"] == event);
        let latency = |it: &Value| it["fields"]["timer_latency"].as_u64();
        records.filter_map(latency).collect()
    };
    let (threads, users) = (of("timerlat:timerlat_thread"), of("timerlat:timerlat_user"));
    ensure!(threads.len() == 100 && users.len() == 100, "{users:?}");
    let pairs = threads.iter().zip(&users);
    ensure!(
        pairs.clone().all(|(thread, user)| thread < user),
        "{threads:?}, {users:?}"
    );
    let dir = stage.dir("user");
    stage
        .xtask(&["trace", &dir])?
        .says("timerlat_user: #50 context user-ret slot=1 timer_latency=")?;
    stage
        .xtask(&["log", &dir])?
        .says("task 'timerlatu-1' was killed, since timerlat has ended")?;
    let csv = std::fs::read_to_string(format!("{dir}/hist.csv"))?;
    let head = csv.lines().next().context("an empty file")?;
    ensure!(
        head == "ns,irq_000,thr_000,usr_000,irq_001,thr_001,usr_001",
        "{head}"
    );
    Ok(())
}

/// A task of a manifest is measured, with the time that its work takes, which an analysis names; a second one on its CPU is refused;
/// beside a measurement of the kernel's threads both are.
pub(super) fn tasks_of_a_manifest(stage: &Stage) -> Result<()> {
    const TASKS: &str = "--manifest tests/tasks/measured.app.toml";
    let run = |name: &str, flags: &str| stage.latency_run(name, &format!("{flags} {TASKS}"));
    run("any", "-U -d 50ms")?.code(0)?;
    let document = stage.document("any")?;
    let cpu = &document["cpus"][0];
    let figure = |which: &str| cpu[which]["max"].as_u64().unwrap_or(0);
    // A round is three instructions at least.
    ensure!(figure("user") > figure("thread") + 3000, "{document}");
    ensure!(cpu["user"]["count"].as_u64() >= Some(48), "{document}");
    let log = stage.xtask(&["log", &stage.dir("any")])?;
    log.says("late: not measured: Busy")?
        .says("task 'worker' was killed, since timerlat has ended")?;
    run("stopped", "-U -d 50ms -a 2")?
        .code(2)?
        .says("Thread latency:")?
        .says("User thread:")?
        .says("cause        User thread, worker:")?;
    run("beside", "-d 20ms -q")?.code(0)?;
    let log = stage.xtask(&["log", &stage.dir("beside")])?;
    log.says("worker: not measured: InvalidArgument")?;
    Ok(())
}

/// cyclictest's thread reads the clock in user space: later than the kernel's, by no more than a call's way back.
pub(super) fn cyclictest(stage: &Stage) -> Result<()> {
    let max = |name: &str, flags: &str| -> Result<u64> {
        let flags = format!("-D 50ms --event none -q {flags}");
        stage.cyclictest(name, &flags)?.code(0)?;
        let document = stage.document(name)?;
        let max = document["cpus"][0]["thread"]["max"].as_u64();
        max.context("no thread latency")
    };
    let (user, kernel) = (max("cyclic-user", "--user-threads")?, max("cyclic", "")?);
    ensure!(user < 3573 / 15, "{user} ns");
    ensure!(kernel < user, "{kernel} and {user} ns");
    Ok(())
}
