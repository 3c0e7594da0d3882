//! `ci`: what must hold before anything is merged. Every step is run, two at a time, so that a CPU has something to do while
//! a step compiles its last crate or waits. What failed is said again at the end, with its last words: a log of all steps is
//! long, and often only its end is kept.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use console::style;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use takt_base::input;
use takt_base::output;
use takt_base::paths::{self, cargo};
use takt_base::spread;
use takt_image::build;

/// Steps at the same time.
const LANES: usize = 2;
/// Lines of a step that failed which are said again.
const LAST_LINES: usize = 100;
/// How long the last words of a step that is over are waited for.
const PATIENCE: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(10);
/// A hundredth of a second, in which Linux tells CPU times (`USER_HZ`).
const CPU_TICK: Duration = Duration::from_millis(10);

/// One gate.
struct Step {
    name: &'static str,
    /// Cargo's arguments.
    args: &'static str,
    /// Variables for it.
    variables: Variables,
}

#[derive(Clone, Copy)]
enum Variables {
    None,
    /// Warnings of the documentation are errors.
    Documentation,
    /// As when an image with feature `function` is built: what runs on the host is there by then.
    Image,
    /// The same for machines with one CPU: tables of CPUs have one place then.
    ImageForOneCpu,
}

const fn step(name: &'static str, args: &'static str) -> Step {
    Step {
        name,
        args,
        variables: Variables::None,
    }
}

/// In the order of their beginning: the longest first, so that the last ones to end do so at about the same time.
const STEPS: [Step; 11] = [
    step("tests", "xtask test"),
    // Measures what `bench` does and refuses a row above its limit, too.
    step("budgets and limits", "xtask budget check"),
    step("fuzzing", "xtask fuzz --seconds 5"),
    step(
        "lints",
        "clippy --workspace --all-targets -- --deny warnings",
    ),
    Step {
        variables: Variables::Documentation,
        ..step("documentation", "doc --workspace --no-deps")
    },
    Step {
        variables: Variables::Image,
        ..step(
            "lints of the image",
            "clippy --package takt-board --features image --lib --profile image --target x86_64-unknown-linux-gnu \
             -- --deny warnings",
        )
    },
    Step {
        variables: Variables::Image,
        ..step(
            "lints of the tracers",
            "clippy --package takt-board --features image,console,latency-tracers,function,tasks --lib --profile image \
             --target x86_64-unknown-linux-gnu -- --deny warnings",
        )
    },
    Step {
        variables: Variables::ImageForOneCpu,
        ..step(
            "lints of an image for one CPU",
            "clippy --package takt-board --features image,console,latency-tracers,function,tasks --lib --profile image \
             --target x86_64-unknown-linux-gnu -- --deny warnings",
        )
    },
    step("example", "xtask run hello"),
    step("format", "fmt --all --check"),
    step("bounds follow the code", "xtask prove --mutations 20"),
];

/// Whether there is a step of this name in `ci`.
#[must_use]
pub fn has_ci_step(name: &str) -> bool {
    STEPS.iter().any(|step| step.name == name)
}

/// A step that failed.
struct Failed {
    name: &'static str,
    last_words: VecDeque<String>,
}

/// Runs every step.
pub(super) fn run() -> Result<ExitCode> {
    let started = Instant::now();
    let failed = spread::each(LANES, &STEPS, |step| {
        let last_words = step.run().err()?;
        Some(Failed {
            name: step.name,
            last_words,
        })
    });
    let failed: Vec<_> = failed.into_iter().flatten().collect();
    let took = took(started, cpu_time(process::id()));
    tell!("{} {took}", style("all steps:").bold().for_stderr());
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let error = style("error:").red().bold().for_stderr();
    for Failed { name, last_words } in &failed {
        tell!("\n{error} the last lines of: {name}");
        for line in last_words {
            tell!("{line}");
        }
    }
    let names: Vec<_> = failed.iter().map(|it| it.name).collect();
    tell!("{error} failed: {}", names.join(", "));
    Ok(ExitCode::FAILURE)
}

impl Step {
    /// Runs it. What it says of its progress is passed on as it comes, each line behind the step's name; its results are
    /// printed in one piece at its end.
    ///
    /// # Errors
    ///
    /// Its last words, if it fails.
    fn run(&self) -> Result<(), VecDeque<String>> {
        let heading = style(format!("{}:", self.name)).bold().for_stderr();
        tell!("{heading} cargo {}", self.args);
        let started = Instant::now();
        let last_words = Arc::default();
        let mut cpu = None;
        let result = self.follow(&last_words, &mut cpu);
        let took = took(started, cpu);
        let mut last_words = lock(&last_words).clone();
        match result {
            Ok(()) => {
                tell!("{heading} passed, {took}");
                Ok(())
            }
            Err(error) => {
                let failed = style("failed").red().bold().for_stderr();
                tell!("{heading} {failed}, {took}");
                last_words.push_back(format!("{error:#}"));
                Err(last_words)
            }
        }
    }

    fn follow(
        &self,
        last_words: &Arc<Mutex<VecDeque<String>>>,
        cpu: &mut Option<Duration>,
    ) -> Result<()> {
        let mut child = self
            .command()
            .current_dir(paths::workspace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot be run")?;
        let said = child.stderr.take().context("no stderr")?;
        let mut printed = child.stdout.take().context("no stdout")?;
        let into = last_words.clone();
        let prefix = format!("{:<20} | ", self.name);
        let passing = thread::spawn(move || pass_on(said, &prefix, &mut io::stderr(), &into));
        let results = Arc::new(Mutex::new(Vec::new()));
        let into = results.clone();
        let keeping = thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(len @ 1..) = printed.read(&mut some) {
                lock(&into).extend_from_slice(&some[..len]);
            }
        });
        wait_for_end(&child).context("cannot be waited for")?;
        *cpu = cpu_time(child.id());
        let status = child.wait().context("cannot be waited for")?;
        // What the step has left running may hold its ends of the pipes for ever.
        let ended = Instant::now();
        while !(passing.is_finished() && keeping.is_finished()) && ended.elapsed() < PATIENCE {
            thread::sleep(TICK);
        }
        let results = String::from_utf8_lossy(&lock(&results)).into_owned();
        output::print(&results)?;
        for line in results.lines() {
            keep(&mut lock(last_words), line);
        }
        if !status.success() {
            bail!("{status}");
        }
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = match self.args.strip_prefix("xtask ") {
            // By this name it is still there when cargo has replaced the file while building the host's tests.
            Some(_) => Command::new("/proc/self/exe"),
            None => Command::new(cargo()),
        };
        let args = self.args.strip_prefix("xtask ").unwrap_or(self.args);
        command.args(args.split_ascii_whitespace());
        match self.variables {
            Variables::None => &mut command,
            Variables::Documentation => command.env("RUSTDOCFLAGS", "--deny warnings"),
            Variables::Image => command.envs(build::variables(true, build::INFO)),
            Variables::ImageForOneCpu => command
                .envs(build::variables(true, build::INFO))
                .env("TAKT_MAX_CPUS", "1"),
        };
        command
    }
}

/// Waits until a child has ended, and leaves what the kernel knows of it.
fn wait_for_end(child: &Child) -> rustix::io::Result<()> {
    let pid = Pid::from_child(child);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Err(Errno::INTR) => {}
            other => return other.map(drop),
        }
    }
}

/// How long CPUs have worked for a process and for all those that it has waited for, if Linux says so (`proc_pid_stat(5)`).
fn cpu_time(process: u32) -> Option<Duration> {
    let stat = input::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in front may have anything in it. utime, stime, cutime and cstime are the fields 14 to 17.
    let (_, fields) = stat.rsplit_once(')')?;
    let times = fields.split_ascii_whitespace().skip(11).take(4);
    let ticks: Vec<u32> = times.map_while(|it| it.parse().ok()).collect();
    (ticks.len() == 4).then(|| CPU_TICK * ticks.iter().sum())
}

/// The time since then, and that of CPUs, in words.
fn took(started: Instant, cpu: Option<Duration>) -> String {
    let seconds = started.elapsed().as_secs_f64();
    let cpu = cpu.map_or_else(String::new, |it| {
        format!(", {:.0} s of CPU time", it.as_secs_f64())
    });
    format!("{seconds:.0} s{cpu}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes everything on as it comes, each line behind `prefix`, and keeps the last lines.
fn pass_on(
    said: impl Read,
    prefix: &str,
    on: &mut impl Write,
    last: &Mutex<VecDeque<String>>,
) -> io::Result<()> {
    let mut said = BufReader::new(said);
    let mut line = prefix.as_bytes().to_vec();
    while said.read_until(b'\n', &mut line)? != 0 {
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        // In one piece, since another step does the same.
        on.write_all(&line)?;
        let text = String::from_utf8_lossy(&line[prefix.len()..]).into_owned();
        keep(&mut lock(last), text.trim_end());
        line.truncate(prefix.len());
    }
    Ok(())
}

fn keep(last: &mut VecDeque<String>, line: &str) {
    if last.len() == LAST_LINES {
        last.pop_front();
    }
    last.push_back(line.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_passed_on_and_the_end_is_kept() {
        let said: String = (0..300).map(|nr| format!("line {nr}\r\n")).collect();
        let said = said + "without an end \u{e9}";
        let mut seen = Vec::new();
        let last = Mutex::default();
        pass_on(said.as_bytes(), "step | ", &mut seen, &last).unwrap();
        let last = last.into_inner().unwrap();
        let expected: String = said
            .split_inclusive('\n')
            .map(|line| format!("step | {line}"))
            .collect();
        assert_eq!(String::from_utf8(seen).unwrap(), expected + "\n");
        assert_eq!(last.len(), LAST_LINES);
        assert_eq!(last.front().map(String::as_str), Some("line 201"));
        assert_eq!(
            last.back().map(String::as_str),
            Some("without an end \u{e9}")
        );
    }

    #[test]
    fn work_of_a_child_and_its_children_is_counted() {
        let script = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; :";
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        wait_for_end(&child).unwrap();
        let cpu = cpu_time(child.id()).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(cpu >= CPU_TICK, "{cpu:?}");
        assert_eq!(cpu_time(u32::MAX), None);
    }

    #[test]
    fn a_step_that_fails_tells_its_last_words() {
        let failed = step("unknown", "no-such-subcommand").run().unwrap_err();
        let words = Vec::from(failed).join("\n");
        assert!(words.contains("no-such-subcommand"), "{words}");
        assert!(words.ends_with("exit status: 101"), "{words}");
    }
}
