//! Live control: the shell, the FUSE mount with real `cat`, `echo` and `ls`, and that looking costs the guest nothing.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::stage::{self, program};
use super::{Done, Stage};
use takt_base::paths;

/// How often something that is waited for is looked at, and how many times at most.
const TICK: Duration = Duration::from_millis(50);
const TICKS: u32 = 1200;

/// A process that is ended and waited for when this is dropped.
pub(super) struct Running(Child);

impl Running {
    /// Runs ourselves with these words.
    fn xtask(words: &[&str]) -> Result<Self> {
        let mut command = Command::new(program());
        Self::start(command.args(words).current_dir(paths::workspace()))
    }

    pub(super) fn start(command: &mut Command) -> Result<Self> {
        command
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().map(Self).context("cannot start a process")
    }

    /// Its number, of which the folder is named that it fills.
    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// What it prints, for who reads it meanwhile.
    pub(super) fn stdout(&mut self) -> Result<ChildStdout> {
        self.0.stdout.take().context("its stdout is taken")
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // It may have ended.
            let _ = kill_process(pid, signal);
        }
    }

    pub(super) fn is_over(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }

    /// Waits for its end.
    pub(super) fn wait(mut self) -> Result<Done> {
        use std::io::Read;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let (out, err) = (self.0.stdout.take(), self.0.stderr.take());
        thread::scope(|scope| {
            // Both at once, so that neither fills up.
            scope.spawn(|| err.map(|mut err| err.read_to_end(&mut stderr)));
            out.map(|mut out| out.read_to_end(&mut stdout))
        });
        Ok(Done {
            code: self.0.wait()?.code(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            // It unmounts and ends its guest.
            self.signal(Signal::INT);
            for _ in 0..TICKS {
                if !matches!(self.0.try_wait(), Ok(None)) {
                    return;
                }
                thread::sleep(TICK);
            }
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Waits until `is_so`.
fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..TICKS {
        if is_so()? {
            return Ok(());
        }
        thread::sleep(TICK);
    }
    bail!("waited in vain: {what}")
}

pub(super) fn contains(text: &str, part: &str) -> Result<()> {
    ensure!(text.contains(part), "no `{part}` in\n{text}");
    Ok(())
}

/// Words of the kernel's command line in Linux's spelling do what they do in Linux, from boot on.
pub(super) fn boot_words(stage: &Stage) -> Result<()> {
    let dir = stage.dir("words");
    let run = |words: &str| {
        let fixed = [
            "latency-run",
            "--accel",
            "tcg",
            "-d",
            "20ms",
            "-e",
            "none",
            "--force",
            "-o",
            &dir,
        ];
        stage.xtask(&[&fixed[..], &["--append", words]].concat())
    };
    run("ftrace=nop trace_event=timerlat:timerlat_i*")?.code(0)?;
    let trace = stage.trace("words")?;
    ensure!(
        trace.len() >= 19
            && trace
                .iter()
                .all(|record| record["event"] == "timerlat:timerlat_irq"),
        "{} records, not the irq samples alone",
        trace.len()
    );
    run("trace_event=timerlat: tracing_on=0")?.code(0)?;
    ensure!(
        stage.trace("words")?.is_empty(),
        "recorded with tracing_on=0"
    );
    run("trace_event=timerlat: tracing_cpumask=2")?.code(0)?;
    ensure!(
        stage.trace("words")?.is_empty(),
        "recorded on a CPU that is not in the mask"
    );
    for bad in [
        "trace_event=timerlet:",
        "trace_options=nonsense",
        "trace_buf_size=1Q",
    ] {
        let done = run(bad)?.code(1)?;
        contains(&done.stderr, bad)?;
    }
    Ok(())
}

/// The files by the shell: what is read, what is written, and what is said of what is wrong.
pub(super) fn shell(stage: &Stage) -> Result<()> {
    let shell = |commands: &str| stage.xtask(&["tracefs", "shell", "--no-install", "-c", commands]);
    let done = shell(
        "ls; ls events/sched; cat available_tracers current_tracer\n\
         echo irqsoff > current_tracer; cat current_tracer; echo nop > current_tracer; cat current_tracer\n\
         cat events/sched/enable\n\
         echo 1 > events/sched/sched_switch/enable; cat set_event; cat events/sched/enable\n\
         echo timerlat:timerlat_thread >> set_event; cat set_event\n\
         echo 'a word to the wise' > trace_marker; sleep 0.1; echo 0 > tracing_on\n\
         cat trace; cat per_cpu/cpu0/stats; cat saved_cmdlines; cat events/sched/sched_switch/format\n\
         echo > trace; cat trace",
    )?
    .code(0)?;
    for part in [
        "trace_pipe\n",
        "sched_wakeup\n",
        "nop sched_switch irqsoff preemptoff preemptirqsoff wakeup wakeup_rt hwlat timerlat osnoise function function_graph\nnop\nirqsoff\nnop\n",
        "0\nsched:sched_switch\nX\nsched:sched_switch\ntimerlat:timerlat_thread\n",
        "# tracer: nop\n",
        ": tracing_mark_write: a word to the wise\n",
        ": sched_switch: prev_comm=",
        "prev_comm=cyclic/0 ",
        ": timerlat_thread: #",
        "\nentries: ",
        "\ndropped events: 0\n",
        " cyclic/0\n",
        "name: sched_switch\nID: ",
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n",
        "# entries-in-buffer/entries-written: 0/0   #P:1\n",
    ] {
        contains(&done.stdout, part)?;
    }
    ensure!(
        done.stderr
            .lines()
            .all(|line| !line.starts_with("tracefs:")),
        "{}",
        done.stderr
    );

    let done = shell(
        "echo rubbish > current_tracer; cat current_tracer; echo 9999999 > buffer_size_kb; echo 0 > buffer_size_kb\n\
         cat buffer_size_kb; echo 64 > buffer_size_kb; cat buffer_size_kb trace_entries; echo 2 > tracing_on\n\
         cat tracing_on; echo zz > tracing_cpumask; echo fffff > tracing_cpumask; cat tracing_cpumask\n\
         echo sched:sched_nothing > set_event; echo noprint-parent > trace_options; cat options/print-parent\n\
         echo sym-offset nonsense > trace_options; cat options/sym-offset; echo 5 > options/raw\n\
         echo stacktrace > trace_options; echo nooverwrite > trace_options; cat options/overwrite\n\
         cat error_log; echo 1 > trace_pipe; echo 1 > nothing; echo 1 > events/nothing/enable; cat nothing; ls nothing; nothing",
    )?
    .code(127)?;
    contains(&done.stdout, "nop\n256\n64\n4048\n1\n1\n0\n1\n0\n")?;
    contains(
        &done.stdout,
        "set_event: error: No such event\n  Command: sched:sched_nothing\n           ^\n",
    )?;
    contains(
        &done.stdout,
        "error: No such option\n  Command: sym-offset nonsense\n                      ^\n",
    )?;
    let said: Vec<_> = done
        .stderr
        .lines()
        .filter(|line| line.contains(": "))
        .collect();
    let invalid = "tracefs: echo: write error: Invalid argument";
    let expected = [
        invalid,
        "tracefs: echo: write error: Cannot allocate memory",
        invalid,
        invalid,
        "tracefs: echo: write error: Value too large for defined data type",
        invalid,
        invalid,
        invalid,
        invalid,
        "tracefs: nothing: Permission denied",
        "tracefs: events/nothing/enable: No such file or directory",
        "cat: nothing: No such file or directory",
        "ls: cannot access 'nothing': No such file or directory",
        "tracefs: nothing: command not found",
    ];
    ensure!(said == expected, "{}", done.stderr);
    Ok(())
}

/// A run under icount is the same to the bit, whether somebody reads its rings all the time or not.
pub(super) fn reader_changes_nothing(stage: &Stage) -> Result<()> {
    const FLAGS: &str = "-d 10s -q";
    stage.latency_run("unwatched", FLAGS)?.code(0)?;
    let dir = stage.dir("watched");
    let mut words = vec!["latency-run", "--no-history", "--accel", "tcg", "-o", &dir];
    words.extend(FLAGS.split_whitespace());
    let mut run = Running::xtask(&words)?;
    let mut seen = None;
    wait_until("nobody could attach to the run", || {
        // It reads the rings, then the pipe until the guest's end.
        let commands = "cat trace per_cpu/cpu0/stats; echo 0 > tracing_on; cat trace_pipe";
        let done = stage.xtask(&["tracefs", "shell", "--attach", &dir, "-c", commands])?;
        if done.code == Some(0) {
            seen = Some(done);
        }
        Ok(seen.is_some() || run.is_over()?)
    })?;
    run.wait()?.code(0)?;
    let seen = seen.context("the run was over before anybody had attached")?;
    let records = seen.stdout.matches(": timerlat_thread: ").count();
    ensure!(records > 100, "the reader saw {records} samples only");
    contains(&seen.stdout, "\nread events: 0\n")?;
    contains(&seen.stderr, "write error: Operation not permitted")?;
    ["hist.csv", "trace.bin", "log.bin"]
        .iter()
        .try_for_each(|file| stage.same(file, "unwatched", "watched"))
}

/// A run that was started for it is controlled while it goes on; a mount of it goes with it.
pub(super) fn attach_and_control(stage: &Stage) -> Result<()> {
    let dir = stage.dir("live");
    let words = [
        "latency-run",
        "--no-history",
        "--accel",
        "tcg",
        "-d",
        "10h",
        "-q",
        "-e",
        "none",
    ];
    let run = Running::xtask(&[&words[..], &["--live", "-o", &dir]].concat())?;
    let mut done = None;
    wait_until("nobody could attach to the run", || {
        let commands = "echo 1 > events/timerlat/enable; cat set_event; echo here > trace_marker; sleep 0.01\n\
                        echo 0 > tracing_on; cat tracing_on; cat trace";
        let tried = stage.xtask(&["tracefs", "shell", "--attach", &dir, "-c", commands])?;
        let is_done = tried.code == Some(0);
        done = Some(tried);
        Ok(is_done)
    })?;
    let done = done.context("never tried")?;
    contains(
        &done.stdout,
        "timerlat:timerlat_irq\ntimerlat:timerlat_thread\n0\n",
    )?;
    run.signal(Signal::INT);
    run.wait()?.code(130)?;
    let trace = stage.trace("live")?;
    let has = |event: &str| trace.iter().any(|record| record["event"] == event);
    ensure!(
        has("timerlat:timerlat_thread"),
        "the event was not switched on"
    );
    let done = stage
        .xtask(&["tracefs", "shell", "--attach", &dir, "-c", "ls"])?
        .code(1)?;
    contains(&done.stderr, "goes on")
}

/// The mount, driven by real programs.
pub(super) fn mount(stage: &Stage) -> Result<()> {
    let dir = stage.path().join("mnt");
    fs::create_dir(&dir)?;
    let path = dir.display().to_string();
    if let Err(error) = takt_tracefs::mount::check(&dir) {
        tell!("\nNOT TESTED: tracefs mount. {error:#}\n");
        return Ok(());
    }
    fs::write(dir.join("x"), "")?;
    let refused = stage.xtask(&["tracefs", "mount", &path])?.code(1)?;
    contains(&refused.stderr, "is not empty")?;
    fs::remove_file(dir.join("x"))?;

    with_mount(dir, Files::drive)
}

/// Mounts the files on `dir` while `act` does something with them.
pub(super) fn with_mount(dir: PathBuf, act: impl FnOnce(&Files) -> Result<()>) -> Result<()> {
    let path = dir.display().to_string();
    let mut mount = Running::xtask(&["tracefs", "mount", "--no-install", &path])?;
    // What mounts may have to be built.
    stage::wait_until(|| dir.join("current_tracer").exists() || mount.is_over().unwrap_or(true))?;
    if mount.is_over()? {
        mount.wait()?.code(0)?;
        bail!("it has ended");
    }
    let run = paths::runs().join(format!(".tracefs.tmp-{}", mount.pid()));
    let files = Files { dir, run };
    act(&files)?;
    mount.signal(Signal::INT);
    mount.wait()?.code(0)?;
    let left = fs::read_dir(&files.dir)?.count();
    ensure!(left == 0, "{left} files are left");
    Ok(())
}

/// A folder in which the files are, and that of the run that they are of.
pub(super) struct Files {
    dir: PathBuf,
    pub(super) run: PathBuf,
}

impl Files {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C").current_dir(&self.dir);
        command
    }

    /// What a script prints, errors included.
    pub(super) fn sh(&self, script: &str) -> Result<String> {
        let mut sh = self.command("sh");
        sh.args(["-c", &format!("exec 2>&1\n{script}")]);
        let output = sh.stdin(Stdio::null()).output().context("cannot run sh")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn is(&self, script: &str, expected: &str) -> Result<()> {
        let said = self.sh(script)?;
        ensure!(said == expected, "{script} says\n{said}not\n{expected}");
        Ok(())
    }

    fn drive(&self) -> Result<()> {
        contains(&self.sh("ls")?, "trace_pipe\n")?;
        contains(&self.sh("ls events/sched")?, "sched_switch\n")?;
        self.is("cat current_tracer tracing_on", "nop\n1\n")?;
        self.is(
            "echo 1 > events/sched/enable; cat events/sched/enable",
            "1\n",
        )?;
        self.is(
            "echo timerlat: > set_event; cat set_event",
            "timerlat:timerlat_irq\ntimerlat:timerlat_thread\n",
        )?;
        self.is(
            "echo '!timerlat_irq' >> set_event; cat set_event",
            "timerlat:timerlat_thread\n",
        )?;
        contains(
            &self.sh("env echo rubbish > current_tracer")?,
            "Invalid argument",
        )?;
        contains(
            &self.sh("env echo 99999999 > buffer_size_kb")?,
            "Cannot allocate memory",
        )?;
        contains(
            &self.sh("cat error_log")?,
            "current_tracer: error: No such tracer",
        )?;
        contains(&self.sh("echo 1 > nothing")?, "ermission denied")?;
        for command in [
            "mkdir nothing",
            "rm -f trace",
            "rmdir events",
            "mv trace nothing",
        ] {
            contains(&self.sh(command)?, "not permitted")?;
        }
        contains(&self.sh("cat nothing")?, "No such file")?;
        self.is("echo 64 > buffer_size_kb; cat buffer_size_kb", "64\n")?;
        self.is("echo 0 > events/enable; echo > trace; echo hello > trace_marker; grep -c 'tracing_mark_write: hello' trace", "1\n")?;
        let stats = self.sh("cat per_cpu/cpu0/stats")?;
        contains(&stats, "entries: 1\n")?;
        // What is in the buffer, not what was ever written.
        contains(&stats, "bytes: 20\n")?;
        self.pipe()
    }

    /// `trace_pipe` takes away, waits, ends when the tracer changes or recording does, and can be interrupted.
    fn pipe(&self) -> Result<()> {
        let pipe = Running::start(self.command("cat").arg("trace_pipe"))?;
        wait_until("nothing was taken", || {
            Ok(self
                .sh("cat per_cpu/cpu0/stats")?
                .contains("read events: 1\n"))
        })?;
        self.is("grep -c 'tracing_mark_write: hello' trace", "0\n")?;
        contains(&self.sh("cat per_cpu/cpu0/stats")?, "bytes: 0\n")?;
        self.is("echo more > trace_marker; echo nop > current_tracer", "")?;
        let said = pipe.wait()?.code(0)?.stdout;
        contains(&said, "tracing_mark_write: hello\n")?;
        contains(&said, "tracing_mark_write: more\n")?;
        let mut pipe = Running::start(self.command("cat").arg("trace_pipe"))?;
        self.is("echo first > trace_marker", "")?;
        wait_until("nothing was taken", || {
            Ok(self.sh("grep -c first trace")? == "0\n")
        })?;
        ensure!(!pipe.is_over()?, "an empty pipe has ended");
        // Not the signal of Ctrl-C: what a shell starts in the background ignores that, and so do all its children.
        pipe.signal(Signal::TERM);
        let done = pipe.wait()?;
        ensure!(
            done.code.is_none(),
            "not ended by the signal: {:?}",
            done.code
        );
        let pipe = Running::start(self.command("cat").arg("trace_pipe"))?;
        self.is("echo last > trace_marker", "")?;
        wait_until("nothing was taken", || {
            Ok(self.sh("grep -c last trace")? == "0\n")
        })?;
        self.is("echo 0 > tracing_on", "")?;
        contains(&pipe.wait()?.code(0)?.stdout, "tracing_mark_write: last\n")?;
        self.is("echo 1 > tracing_on", "")
    }
}
