//! Protected tasks: one is stopped for what it does, and the others go on. The image is that of the on-target tests.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Stage;
use std::path::PathBuf;
use takt_base::paths;
use takt_image::Recipe;

/// The image with the tests of tasks.
fn image_of_tasks() -> Result<PathBuf> {
    let manifest = paths::workspace().join("tests/tasks/takt.app.toml");
    Ok(Recipe::tests("tasks", &[])
        .with_tasks(&manifest)
        .build()?
        .path)
}

/// What the documentation shows of tasks: a manifest is booted, the driver with a bug is stopped and begins anew, and the control
/// loop has missed nothing.
pub(super) fn of_a_manifest(stage: &Stage) -> Result<()> {
    let words = |manifest: &str, name: &str| {
        let dir = stage.dir(name);
        stage.xtask(&["run", "--manifest", manifest, "-o", &dir])
    };
    const PLANT: &str = "board/examples/plant/takt.app.toml";
    let done = words(PLANT, "plant")?
        .code(0)?
        .says("task 'uart' stopped: #PF page fault writing 0x0000000001000000, not permitted")?
        .says(" = uart::main (board/examples/plant/src/bin/uart.rs:")?
        .says("supervisor: task 1 stopped at ")?
        .says("control: 300 turns, 0 missed")?
        .says("logger: 30 set points, 1 faults, turns late by ")?
        .says(": task_fault: ")?;
    driver_is_back(&done.stdout)?;
    let sent = std::fs::read_to_string(Path::new(&stage.dir("plant")).join("com2.txt"))?;
    // All that was sent but what the driver was stopped for.
    let expected = (0..30).filter(|it| *it != 7);
    let expected: String = expected
        .map(|it| format!("valve to {it} per mille\n"))
        .collect();
    ensure!(sent == expected, "the valve was sent {sent}");
    let plant = std::fs::read_to_string(takt_base::paths::workspace().join(PLANT))?;
    let wrong = plant.replacen("supervisor = \"supervisor\"", "supervisor = \"nobody\"", 1);
    let path = stage.dir("wrong.app.toml");
    std::fs::write(&path, wrong)?;
    let done = words(&path, "none")?.code(1)?;
    let said = "there is no task `nobody`";
    let has = |text: &str| done.stderr.contains(text);
    ensure!(has("line 22") && has(said), "{}", done.stderr);
    // Its tasks on two CPUs.
    let spread = plant.replacen("name = \"control\"\n", "name = \"control\"\ncpu = 1\n", 1);
    ensure!(spread != plant, "the manifest has no task `control`");
    let path = stage.dir("spread.app.toml");
    std::fs::write(&path, spread)?;
    words(&path, "spread")?
        .code(0)?
        .says("task 'uart' stopped: #PF page fault writing")?
        .says("control: 300 turns, 0 missed")?;
    let dir = stage.dir("few");
    let few = ["run", "--manifest", &path, "--smp", "1", "-o", &dir];
    let done = stage.xtask(&few)?.code(1)?;
    let said = "the manifest has a task for CPU 1, but --smp 1 ends at CPU 0";
    ensure!(done.stderr.contains(said), "{}", done.stderr);
    Ok(())
}

/// How long after its fault the driver of the plant waits for set points again, at most, in nanoseconds. With all that is traced.
const BACK_WITHIN: u64 = 25_000;
/// And for how long the valve has no set point: one comes each 10 ms.
const SERVED_WITHIN: u64 = 10_000_000 + BACK_WITHIN;

/// The driver of the plant is back in time, by the trace of the run.
fn driver_is_back(trace: &str) -> Result<()> {
    let (_, behind) = trace
        .split_once(": task_fault: comm=uart ")
        .context("no fault")?;
    let at = |line: &str| {
        let time = line
            .split_whitespace()
            .find_map(|it| it.strip_suffix(':'))?;
        let (seconds, nanos) = time.split_once('.')?;
        Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?)
    };
    let fault = trace
        .lines()
        .find(|it| it.contains(": task_fault: comm=uart "));
    let fault = fault.and_then(at).context("a fault without a time")?;
    for (what, limit) in [
        ("syscall_entry: call=receive ", BACK_WITHIN),
        ("syscall_exit: call=receive error=0 ", SERVED_WITHIN),
    ] {
        let mut of_uart = behind.lines().filter(|it| it.contains("  uart-"));
        let line = of_uart.find(|it| it.contains(what));
        let after = line.and_then(at).with_context(|| format!("no `{what}`"))? - fault;
        ensure!(after <= limit, "`{what}` {after} ns after the fault");
    }
    Ok(())
}

/// Two tasks call each other a thousand times, a third writes where it must not, a fourth is its supervisor: who was stopped where
/// and why is in the log and in the trace.
pub(super) fn are_stopped_alone(stage: &Stage) -> Result<()> {
    let image = image_of_tasks()?;
    let image = image.to_str().context("a path that is no text")?;
    let dir = stage.dir("tasks");
    let words = ["run", "--image", image, "-o", &dir, "-e", "task,sched"];
    let append = "test=messages::a_wild_write_harms_nobody";
    let done = stage
        .xtask(&[&words[..], &["--append", append]].concat())?
        .code(0)?
        .says("task 'victim' stopped: #PF page fault writing 0x0000000001000000, not permitted, at 0x000000800060")?
        .says(" = probe::harm::run (tests/tasks/src/harm.rs:")?
        .says("task 'victim' was called from [0x000000800060")?
        .says(" = probe::main (tests/tasks/src/main.rs:")?
        .says(": task_callers: comm=victim ")?
        .says("test messages::a_wild_write_harms_nobody ... ok")?;
    let fault = done
        .stdout
        .lines()
        .find(|line| line.contains(": task_fault: "));
    let fault = fault.context("no task_fault in the trace")?;
    for part in [
        "comm=victim",
        "kind=#PF",
        "code=0x7 ",
        "rip=0x800060",
        "address=0x1000000 ",
    ] {
        ensure!(fault.contains(part), "`{part}` is missing in {fault}");
    }
    names_callers(stage, image)?;
    // The calls go on behind it.
    let (_, behind) = done
        .stdout
        .split_once(": task_fault: ")
        .context("no fault")?;
    for event in [
        "ipc_call: comm=server",
        "ipc_reply: comm=server",
        "syscall_entry: call=call rsi=0x0 rdx=0x0",
        "syscall_exit: call=call error=0 value=0x0",
        "syscall_entry: call=reply_and_receive rsi=0x0 rdx=0xffffffffffffffff",
    ] {
        ensure!(behind.contains(event), "no `{event}` behind the fault");
    }
    Ok(())
}

/// Whoever had called in a task that was stopped is in the log, so many of them at most and the task's own alone, whatever its frame pointer
/// is.
fn names_callers(stage: &Stage, image: &str) -> Result<()> {
    let dir = stage.dir("callers");
    let append = "test=harm::callers_are_the_tasks_own";
    let words = ["run", "--image", image, "-o", &dir, "-e", "none"];
    let done = stage
        .xtask(&[&words[..], &["--append", append]].concat())?
        .code(0)?;
    let lines = done.stdout.lines();
    let lines: Vec<_> = lines.filter(|it| it.contains("was called from")).collect();
    let own = |line: &&str| line.matches("0x00000080006").count();
    let all: Vec<_> = lines.iter().map(|it| it.matches("0x0").count()).collect();
    let is_own = lines.iter().map(own).eq(all.iter().copied());
    // Of a frame pointer that leads nowhere the stack may know more.
    let of_chains = all.get(3..6);
    ensure!(is_own && of_chains == Some(&[16, 1, 2]), "{lines:#?}");
    // That of the panic, through the library.
    let panicked = lines.last().context("no callers of a panic")?;
    ensure!(
        panicked.contains("= core::panicking::") && panicked.contains(" = probe::harm::run ("),
        "{panicked}"
    );
    Ok(())
}

/// What tasks log by defmt is in the log as the kernel's own, whatever another one of them gives for frames of its log.
pub(super) fn that_log_are_read(stage: &Stage) -> Result<()> {
    let image = image_of_tasks()?;
    let image = image.to_str().context("a path that is no text")?;
    let run = |test: &str| {
        let dir = stage.dir(&test.replace("::", "-"));
        let append = format!("test={test}");
        let words = [
            "run", "--image", image, "-o", &dir, "-e", "none", "--append", &append,
        ];
        stage.xtask(&words)
    };
    let done = run("talk::rubbish_is_taken")?
        .code(0)?
        .says("INFO  talker: after all  (tests/tasks/src/talker.rs:")?
        .says("INFO  talker: x = 7  (tests/tasks/src/talker.rs:")?
        .says("WARN  talker: text [1, 2, ff] Some((1, -2))  (tests/tasks/src/talker.rs:")?
        .says("ERROR talker: a slice [1, 2, 3]  (tests/tasks/src/talker.rs:")?
        .says("INFO  talker: doors: OPEN | WATCHED  (tests/tasks/src/talker.rs:")?
        .says("INFO  talker: in between")?
        .says("INFO  talker: in words")?
        .says("test talk::rubbish_is_taken ... ok")?;
    let nr = |text: &str| done.stdout.matches(text).count();
    // What it gave, the addresses aside that are not its own; then a frame with another one in it, and one without room.
    let (no_frames, too_long) = (
        nr("that are no frame of its log"),
        nr("a line that is too long was dropped"),
    );
    ensure!(
        (30..=60).contains(&no_frames),
        "{no_frames} lines make no sense"
    );
    ensure!(too_long == 3, "{too_long} lines were too long");
    ensure!(
        nr("not compiled in") == 0 && nr("make no sense") == 0,
        "{}",
        done.stdout
    );
    run("talk::a_flood_of_frames_is_dropped")?
        .code(0)?
        .says("INFO  talker: round 63")?;
    Ok(())
}

/// Events of a task's own are in the trace with its name, and are switched by theirs; what it does not have is not recorded.
pub(super) fn that_trace_are_read(stage: &Stage) -> Result<()> {
    let image = image_of_tasks()?;
    let image = image.to_str().context("a path that is no text")?;
    let run = |test: &str, events: &str| {
        let dir = stage.dir(&test.replace("::", "-"));
        let append = format!("test={test}");
        stage.xtask(&[
            "run", "--image", image, "-o", &dir, "-e", events, "--append", &append,
        ])
    };
    let done = run("talk::events_are_recorded", "talk,thread_name")?
        .code(0)?
        .says("alone: alone\n")?
        .says("pair: next=7 other=0xabcd\n")?
        .says("words: words={0x1,0x2,0x3,0x4,0x5,0x6,0x7,0xffffffff}\n")?
        .says("text: number=3 text=what a task has to say\n")?;
    let lines = |text: &str| done.stdout.lines().filter(|it| it.contains(text)).count();
    // Two lives, and five events in each. A text that is too long is cut.
    ensure!(lines("          talker-") == 10, "{}", done.stdout);
    ensure!(lines("text: number=4 text=xxxxx") == 2, "{}", done.stdout);
    let done = run("talk::events_are_not_forged", "talk:alone,thread_name")?.code(0)?;
    let nr = |text: &str| done.stdout.matches(text).count();
    ensure!(nr(": alone: alone") == 1, "{}", done.stdout);
    ensure!(
        nr(": pair: ") + nr(": words: ") + nr(": text: ") == 0,
        "{}",
        done.stdout
    );
    Ok(())
}

/// A task at the highest priority that never gives way is named with its place, beside that of the kernel's threads.
pub(super) fn that_spin_are_named(stage: &Stage) -> Result<()> {
    const TASKS: &str = "tests/tasks/takt.app.toml";
    // The 19th role's second deed is an endless loop.
    let spins = format!("name = \"spender\"\nargument = {}\n", 19u64 << 32 | 2);
    let tasks = std::fs::read_to_string(takt_base::paths::workspace().join(TASKS))?;
    let spinning = tasks.replacen("name = \"spender\"\n", &spins, 1).replacen(
        "budget_us = 200\nperiod_us = 1000\noverrun_notification = 4\n",
        "",
        1,
    );
    ensure!(
        !spinning.contains("overrun_notification"),
        "the manifest has another budget"
    );
    let path = stage.dir("spinning.app.toml");
    std::fs::write(&path, spinning)?;
    let dir = stage.dir("spinning");
    let words = [
        "run",
        "--manifest",
        &path,
        "--timeout",
        "5",
        "-e",
        "none",
        "-o",
        &dir,
    ];
    stage
        .xtask(&words)?
        .code(1)?
        .complains("the guest did not end within 5 s of real time (--timeout)")?
        .complains("`spender`, interrupts on, at 0x00000080")?
        .complains("probe::budget::run (tests/tasks/src/budget.rs:")?;
    Ok(())
}

/// The machine's watchdog bites unless the task that the manifest names feeds it.
pub(super) fn that_feed_the_machine(stage: &Stage) -> Result<()> {
    const BITES: &str = "-global ICH9-LPC.noreboot=false -action watchdog=poweroff";
    let plant = "board/examples/plant/takt.app.toml";
    let plant = std::fs::read_to_string(takt_base::paths::workspace().join(plant))?;
    let plant = plant.replacen("argument = 300 ", "argument = 6000 ", 1);
    let run = |feeder: &str, name: &str| {
        let heading = format!("name = \"{feeder}\"\n");
        let feeds = format!("{heading}machine_watchdog_ms = 1000\n");
        // The same for both: what is built of one manifest is kept apart from that of others.
        let path = stage.dir("feeds.app.toml");
        std::fs::write(&path, plant.replacen(&heading, &feeds, 1))?;
        let dir = stage.dir(name);
        let words = ["run", "--manifest", &path, "-e", "none", "-o", &dir];
        stage.xtask(&[&words[..], &["--qemu", BITES]].concat())
    };
    run("supervisor", "fed")?
        .code(0)?
        .says("the watchdog of the chip set bites after 4800 ms")?
        .says("control: 6000 turns, 0 missed")?;
    // That one does not.
    run("logger", "starved")?
        .code(1)?
        .complains("the guest reset the machine without a report")?;
    Ok(())
}
