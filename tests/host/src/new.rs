//! An application outside of the sources, from `new` on.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::stage::program;
use super::stage::{Done, is_kept_from_cargo};
use super::{Stage, action};
use takt_base::paths::{self, cargo};
use takt_image::build::TARGET;

/// Cargo in the application's folder. What it builds is kept, for the next time.
fn in_folder(dir: &Path, words: &[&str]) -> Result<Done> {
    let output = cargo_in(dir, words).output().context("cannot run cargo")?;
    Ok(Done::of(&output))
}

fn cargo_in(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(cargo());
    for (name, _) in std::env::vars_os() {
        if is_kept_from_cargo(&name) || name == "RUSTFLAGS" {
            command.env_remove(name);
        }
    }
    command
        .args(words)
        .env("CARGO_TARGET_DIR", paths::target().join("application"))
        .env("NO_COLOR", "1")
        .current_dir(dir);
    command
}

/// This program as it is installed, in the application's folder.
fn takt(dir: &Path, words: &[&str]) -> Result<Done> {
    let output = Command::new(program())
        .arg0("takt")
        .args(words)
        .env_remove("CARGO_MANIFEST_DIR")
        .env("NO_COLOR", "1")
        .current_dir(dir)
        .output()
        .context("cannot run this program once more")?;
    Ok(Done::of(&output))
}

/// What the commands say of its image, and its budget: kept, and no longer when the image has grown.
fn has_a_budget(dir: &Path) -> Result<()> {
    let elf = paths::target()
        .join("application")
        .join(TARGET)
        .join("debug/demo");
    let elf = elf.to_string_lossy();
    takt(dir, &["latency-run", "--image", &elf])?
        .code(1)?
        .complains("measures no latencies")?
        .complains("help: boot it by `takt run --image`")?;
    takt(dir, &["latency-sweep", "--image", &elf])?
        .code(1)?
        .complains("takes no part in sweeps")?;
    let sampling = ["--image", &elf, "-p", "1000", "-r", "900"];
    takt(dir, &[&["osnoise", "top"][..], &sampling].concat())?
        .code(0)?
        .says("#3 ")?;
    takt(dir, &["hwnoise", "--image", &elf, "-d", "1s"])?
        .code(1)?
        .complains("knows neither a duration nor a load")?;
    takt(
        dir,
        &["run", "--image", &elf, "--append", "ftrace=function"],
    )?
    .code(1)?
    .complains("help: it was built without")?;
    takt(dir, &["log", "demo-001"])?.code(0)?.says("3 blinks")?;
    takt(dir, &["budget", "check", "--image", &elf])?.code(0)?;
    let path = dir.join("src/main.rs");
    let main = fs::read_to_string(&path)?;
    let more = main.replacen(
        "    defmt::info!(",
        "    defmt::info!(\"{=u64}\", takt_kernel::time::until_next_deadline().get());\n    defmt::info!(",
        1,
    );
    ensure!(more != main, "the template is another");
    fs::write(&path, more)?;
    let capacities = dir.join("takt.toml");
    fs::write(&capacities, "max_thread = 16\n")?;
    in_folder(dir, &["build", "--quiet"])?
        .complains("takt.toml: line 1: there is no capacity `max_thread`; there are max_cpus")?;
    fs::write(
        &capacities,
        "max_threads = 16 # with the idle ones\nidle_stack_size = 8_192\n",
    )?;
    in_folder(dir, &["build", "--quiet"])?.code(0)?;
    let parent = dir.parent().context("a folder above")?;
    let target = paths::target().join("application");
    let build = format!("cargo build --quiet --target-dir {target:?}");
    let inputs = [("path", "demo"), ("build", &build), ("image", &elf)];
    let (done, summary) = action::run(parent, &inputs)?;
    done.code(2)?.says("image-text")?.says("image-bss")?;
    ensure!(
        summary.starts_with("```text\n") && summary.contains("image-bss"),
        "{summary}"
    );
    takt(dir, &["budget", "update", "--image", &elf])?.code(0)?;
    action::run(parent, &inputs)?.0.code(0)?;
    Ok(())
}

/// Nothing that Takt brings into an application makes its interrupts keep all SSE registers.
fn short_entry(done: Done) -> Result<Done> {
    ensure!(
        !done.stderr.contains("interrupts keep all"),
        "{}",
        done.stderr
    );
    Ok(done)
}

/// It runs, with its log and its trace; its tests pass, and one that does not hold fails.
pub(super) fn runs_and_is_tested(stage: &Stage) -> Result<()> {
    let dir = stage.path().join("demo");
    let mut new = stage.command(&["new", &dir.to_string_lossy()]);
    new.env("CARGO_TARGET_DIR", paths::target().join("application"));
    Done::of(&new.output().context("cannot run this program once more")?)
        .code(0)?
        .says("cargo run")?;
    short_entry(in_folder(&dir, &["run", "--quiet", "--", "-e", "demo"])?)?
        .code(0)?
        .says("INFO  3 blinks  (src/main.rs:")?
        .says(" lamp_switched: blink=3 on=0")?
        .complains("the guest ended well; run folder runs/demo-001")?;
    short_entry(in_folder(&dir, &["test", "--quiet"])?)?
        .code(0)?
        .says("2 passed, 0 failed")?
        .complains("the_blinker_keeps_time ... ok")?;
    let test = |words: &[&str]| in_folder(&dir, &[&["test", "--quiet", "--"], words].concat());
    test(&["--skip", "lamp", "--test-threads", "1"])?
        .code(0)?
        .says("1 passed, 0 failed")?
        .complains("the_blinker_keeps_time ... ok")?;
    test(&["--list", "the_lamp_is_switched", "--exact"])?
        .code(0)?
        .says("the_lamp_is_switched: test\n\n1 tests, 0 benchmarks")?;
    test(&["--no-such"])?.complains("unexpected argument '--no-such'")?;
    in_folder(&dir, &["run", "--quiet", "--", "--no-such"])?
        .code(1)?
        .complains("unexpected argument '--no-such'")?;
    has_a_budget(&dir)?;
    // On a medium it is with a console, and its own image stays what it is.
    let manifest = dir.join("Cargo.toml").display().to_string();
    let image = stage.dir("demo.elf");
    let words = ["image", "--elf", &image, "--manifest-path", &manifest];
    let output = stage
        .command(&words)
        .env("CARGO_TARGET_DIR", paths::target().join("application"))
        .output()?;
    Done::of(&output)
        .code(0)?
        .says("for attach --image, are in")?;
    let path = dir.join("tests/ontarget.rs");
    let tests = fs::read_to_string(&path)?;
    let wrong = tests.replacen("check!(lamp.is_on());", "check!(!lamp.is_on());", 1);
    ensure!(wrong != tests, "the template is another");
    fs::write(&path, wrong)?;
    let failed = in_folder(&dir, &["test", "--quiet", "--", "lamp"])?;
    ensure!(failed.code != Some(0), "a test that fails passes");
    failed
        .complains("the_lamp_is_switched ... FAILED")?
        .says("0 passed, 1 failed")?;
    // Not into a folder that has something in it.
    stage
        .xtask(&["new", &dir.to_string_lossy()])?
        .code(1)?
        .complains("is not empty")?;
    Ok(())
}

/// Two tasks with an image of their own run by the command that is printed, and what their supervisor is for.
pub(super) fn with_tasks_runs(stage: &Stage) -> Result<()> {
    let dir = stage.path().join("tasks/demo");
    let done = stage
        .xtask(&["new", "--tasks", &dir.to_string_lossy()])?
        .code(0)?;
    let command = done.stdout.lines().find_map(|line| {
        let (words, _) = line.trim().strip_prefix("cargo ")?.split_once("  ")?;
        Some(words.split(' ').map(str::to_owned).collect::<Vec<_>>())
    });
    let command = command.context("no command is printed")?;
    let run = || {
        let words: Vec<_> = command.iter().map(String::as_str).collect();
        let mut cargo = cargo_in(&dir, &words);
        // The tool is there.
        cargo.env("CARGO_TARGET_DIR", paths::target());
        Ok::<_, anyhow::Error>(Done::of(&cargo.output().context("cannot run cargo")?))
    };
    run()?
        .code(0)?
        .says("INFO  2 tasks  (src/main.rs:")?
        .says("INFO  worker: 20 turns, the latest by ")?
        .says("  (tasks/worker.rs:")?
        .says("turn_begun: turn=20 late=")?
        .complains("the guest ended well; run folder runs/demo-001")?;
    let path = dir.join("tasks/worker.rs");
    let worker = fs::read_to_string(&path)?;
    let begins = "    let mut latest = Nanos::ZERO;\n";
    let panics = format!("    assert!(turns != 20, \"a bug\");\n{begins}");
    ensure!(worker.contains(begins), "the template is another");
    fs::write(&path, worker.replacen(begins, &panics, 1))?;
    run()?
        .code(1)?
        .says("INFO  worker: panicked at tasks/worker.rs:")?
        .says("WARN  supervisor: task 1 was stopped in life 3  (tasks/supervisor.rs:")?
        .says("task 'worker' was stopped: panic")?;
    // An event that reads as the kernel's.
    for (name, said) in [
        (
            "sched:sched_switch",
            "the event `sched_switch` is in `sched`, where the kernel's are",
        ),
        (
            "demo:sched_switch",
            "a task has an event `demo:sched_switch`, and the kernel has `sched:sched_switch`",
        ),
    ] {
        let clash = worker.replacen("demo:turn_begun", name, 1);
        ensure!(clash != worker, "the template is another");
        fs::write(&path, clash)?;
        run()?.code(1)?.complains(said)?;
    }
    Ok(())
}

/// Git in the bare repository at `dir`, to which the sources are what it has checked out.
fn git(dir: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .args(["-c", "user.name=Takt", "-c", "user.email=takt@localhost"])
        .env("GIT_DIR", dir)
        .env("GIT_WORK_TREE", paths::workspace())
        .args(words)
        .output()
        .context("cannot run git")?;
    let done = Done::of(&output).code(0)?;
    Ok(done.stdout.trim().to_owned())
}

/// With the crates of a repository, and this program as the installed one, it runs.
pub(super) fn from_git_runs(stage: &Stage) -> Result<()> {
    // At the same place each time: cargo keeps what it has of it.
    let repository = paths::target().join("application-git");
    let init = Command::new("git")
        .args(["init", "--quiet", "--bare"])
        .arg(&repository)
        .output();
    Done::of(&init.context("cannot run git")?).code(0)?;
    git(&repository, &["add", "--all"])?;
    let words = ["commit", "--quiet", "--allow-empty", "--message", "All"];
    git(&repository, &words)?;
    let rev = git(&repository, &["rev-parse", "HEAD"])?;
    let url = format!("file://{}", repository.display());
    // Its parent is made, too.
    let dir = stage.path().join("from/git");
    let words = ["new", "--git", &url, "--rev", &rev, &dir.to_string_lossy()];
    let mut new = stage.command(&words);
    new.env("CARGO_TARGET_DIR", paths::target().join("application"));
    Done::of(&new.output().context("cannot run this program once more")?)
        .code(0)?
        .says("cargo run")?;
    let bin = stage.path().join("bin");
    fs::create_dir(&bin)?;
    symlink(program(), bin.join("takt"))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path)))?;
    let run = ["run", "--quiet", "--", "-e", "git"];
    let output = cargo_in(&dir, &run).env("PATH", path).output()?;
    Done::of(&output)
        .code(0)?
        .says("  (board/src/start.rs:")?
        .says("INFO  3 blinks  (src/main.rs:")?
        .says(" lamp_switched: blink=3 on=0")?
        .complains("the guest ended well; run folder runs/git-001")?;
    Ok(())
}
