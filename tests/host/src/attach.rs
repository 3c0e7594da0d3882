//! A machine that is not ours: QEMU without shared memory, its serial port a pseudo-terminal that `attach` reads.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::stage::{Done, program, wait_until};
use super::{FIRST, Stage};
use takt_base::setup::labgrid::UNAVAILABLE;
use takt_base::{paths, setup};
use takt_guest::Ram;
use takt_machine::qemu::command::{BARE, RAM_MIB, base, escape};
use takt_machine::qemu::{Accel, Process, Qmp};
use takt_machine::run::folder::{HIST, IMAGE, RECORD};

/// A machine of QEMU's that stands still until it is told to go on.
struct Machine {
    _process: Process,
    monitor: Qmp<BufReader<UnixStream>, UnixStream>,
    /// Its serial port.
    pty: String,
}

impl Machine {
    fn start(stage: &Stage, image: &Path, command_line: &str) -> Result<Self> {
        let ram = Ram::create(stage.path())?;
        let socket = stage.path().join("monitor");
        let mut args = base(ram.path(), RAM_MIB, 1, Accel::TcgIcount);
        args.extend(BARE.map(Into::into));
        let monitor = format!("unix:{},server=on,wait=off", escape(&socket));
        let words: [(&str, OsString); 5] = [
            ("-device", "isa-debug-exit,iobase=0xf4,iosize=4".into()),
            ("-serial", "pty".into()),
            ("-qmp", monitor.into()),
            ("-kernel", image.into()),
            ("-append", command_line.into()),
        ];
        args.extend(
            words
                .into_iter()
                .flat_map(|(name, value)| [name.into(), value]),
        );
        args.push("-S".into());
        let process = Process::spawn(&args, false, &stage.path().join("messages.txt"))?;
        wait_until(|| UnixStream::connect(&socket).is_ok_and(|it| it.peer_addr().is_ok()))?;
        let stream = UnixStream::connect(&socket)?;
        let mut monitor = Qmp::new(BufReader::new(stream.try_clone()?), stream)?;
        // Nobody needs the memory's name: this machine's memory is read by nobody.
        ram.unlink();
        let devices = monitor.print("info chardev")?.unwrap_or_default();
        let pty = devices
            .split("filename=pty:")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next())
            .with_context(|| format!("no pseudo-terminal in {devices}"))?;
        Ok(Self {
            _process: process,
            monitor,
            pty: pty.to_owned(),
        })
    }

    /// Lets it go on as soon as `attach` listens; what came of that.
    fn attach(mut self, stage: &Stage, words: &[&str]) -> Result<Done> {
        let mut all = vec!["attach", "--listen", "--serial", &self.pty];
        all.extend(words);
        let mut command = stage.command(&all);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .context("cannot run this program once more")?;
        let mut stderr = BufReader::new(child.stderr.take().context("no stderr")?);
        let mut said = String::new();
        while !said.contains("Waiting for a machine") {
            ensure!(
                stderr.read_line(&mut said)? != 0,
                "it does not listen: {said}"
            );
        }
        ensure!(self.monitor.execute("cont")?, "QEMU is gone");
        let output = child.wait_with_output()?;
        std::io::Read::read_to_string(&mut stderr, &mut said)?;
        Ok(Done {
            stderr: said,
            ..Done::of(&output)
        })
    }
}

/// From the table on, without the lines that name the folder and the machine.
fn table(report: &str) -> Vec<&str> {
    let lines = report
        .lines()
        .skip_while(|line| !line.starts_with("latency in ns"));
    let others = ["run folder", "machine", "TSC", "note"];
    lines
        .filter(|line| !others.iter().any(|other| line.starts_with(other)) && !line.is_empty())
        .collect()
}

/// Records without their times: that it sends a greeting, it takes longer to boot.
fn events(mut records: Vec<Value>) -> Vec<Value> {
    let fields = records.iter_mut().filter_map(Value::as_object_mut);
    fields.for_each(|fields| drop(fields.remove("ts_ns")));
    records
}

/// The same machine with the same work says the same over its serial port as by its memory.
pub(super) fn over_a_pty(stage: &Stage) -> Result<()> {
    let first: Value = serde_json::from_slice(&stage.read(FIRST, RECORD)?)?;
    let line = first["kernel_cmdline"]
        .as_str()
        .context("no command line")?;
    let image = Path::new(&stage.dir(FIRST)).join(IMAGE);
    let elf = image.display().to_string();
    let (dir, name) = (stage.dir("attached"), "attached");
    let machine = Machine::start(stage, &image, &format!("{line} capture=com1 mode=flight"))?;
    let done = machine
        .attach(stage, &["--image", &elf, "-o", &dir])?
        .code(0)?;
    ensure!(
        table(&done.stdout) == table(stage.stdout()),
        "by latency-run:\n{}\nby attach:\n{}",
        stage.stdout(),
        done.stdout
    );
    let done = done.says("the machine is emulated (TCG)")?;
    done.says("TSC          +0.0 ppm beside the HPET")?;
    stage.same(HIST, FIRST, name)?;
    stage.xtask(&["log", &dir])?.code(0)?.says("done")?;
    ensure!(
        events(stage.trace(name)?) == events(stage.first()?),
        "the traces are not the same"
    );
    let page = stage.dir("page.html");
    stage.xtask(&["report", "-o", &page, &dir])?.code(0)?;
    ensure!(
        std::fs::read_to_string(&page)?.contains("the machine is emulated (TCG)"),
        "the page says nothing of the machine"
    );
    let list = stage.xtask(&["history", "list"])?.code(0)?;
    ensure!(list.stdout.contains("machine"), "{}", list.stdout);
    checks_the_hardware(stage, &image, &elf)?;
    measures_nothing(stage)
}

/// What the tracer hwlat finds comes into the same run folder. At 1 ns each turn of its loop is a gap: 5 ms have that many.
fn checks_the_hardware(stage: &Stage, image: &Path, elf: &str) -> Result<()> {
    let (dir, page) = (stage.dir("hardware"), stage.dir("hardware.html"));
    let line = "workload=none duration_ns=100000000 hwlat_width=5000000 hwlat_window=50000000 \
                tracing_thresh=1 ftrace=hwlat tsc_hz=1000000000 lapic_hz=1000000000 halt_margin_ns=256 capture=com1 mode=flight";
    Machine::start(stage, image, line)?
        .attach(stage, &["--image", elf, "-o", &dir])?
        .code(0)?
        .says("hwlat: gaps ")?
        .says(" unknown\n")?
        .says("result       passed")?;
    let run: Value = serde_json::from_slice(&stage.read("hardware", RECORD)?)?;
    let gaps = &run["gaps"][0];
    let count = gaps["count"].as_u64().unwrap_or(0);
    ensure!(
        gaps["cpu"] == 0
            && gaps["nmis"] == 0
            && count > 400_000
            && gaps["max_ns"].as_u64() < Some(100),
        "{gaps}"
    );
    stage.xtask(&["latency-run", "--from", &dir])?.code(0)?;
    stage.xtask(&["report", "-o", &page, &dir])?.code(0)?;
    ensure!(
        std::fs::read_to_string(&page)?.contains("gaps on CPU 0"),
        "the page says nothing of the gaps"
    );
    Ok(())
}

/// Of an application that measures nothing log, trace and end are shown, and kept.
fn measures_nothing(stage: &Stage) -> Result<()> {
    let booted = stage.dir("booted");
    stage
        .xtask(&["run", "ends", "-e", "ends", "-o", &booted])?
        .code(0)?;
    let record: Value = serde_json::from_slice(&stage.read("booted", RECORD)?)?;
    let line = record["kernel_cmdline"]
        .as_str()
        .context("no command line")?;
    let image = Path::new(&booted).join(IMAGE);
    let (elf, dir) = (image.display().to_string(), stage.dir("taken"));
    let machine = Machine::start(stage, &image, &format!("{line} capture=com1"))?;
    machine
        .attach(stage, &["--image", &elf, "-o", &dir])?
        .code(0)?
        .says("bell")?
        .says(" step: number=4")?
        .complains("the guest ended well; run folder ")?;
    stage
        .xtask(&["trace", &dir])?
        .code(0)?
        .says(" step: number=4")?;
    // A line of text that is too long for a message of the log, and a byte that is none.
    let dir = stage.dir("line");
    let done = Machine::start(stage, &image, &format!("{line} end=line capture=com1"))?
        .attach(stage, &["--image", &elf, "-o", &dir])?
        .code(0)?
        .says(r#"b"\xff""#)?;
    let runs = done.stdout.split(|c: char| !c.is_ascii_lowercase());
    let text: String = runs.filter(|run| run.len() > 26).collect();
    ensure!(
        text == ('a'..='z').cycle().take(1_999).collect::<String>(),
        "{}",
        done.stdout
    );
    Ok(())
}

/// The environment and the test of `docs/lab`.
pub(super) fn in_labgrid(stage: &Stage) -> Result<()> {
    let pytest = match setup::ensure_labgrid(stage.may_install()) {
        Err(error) if format!("{error:#}").contains(UNAVAILABLE) => {
            tell!("\nNOT TESTED: docs/lab in labgrid. {error:#}\n");
            return Ok(());
        }
        found => found?,
    };
    let lab = paths::workspace().join("docs/lab");
    let ours = program();
    let output = Command::new(pytest)
        .args(["-q", "-p", "no:cacheprovider", "--lg-env"])
        .args([lab.join("labgrid.yaml"), lab.join("test_latency.py")])
        .env("LG_TAKT_IMAGE", Path::new(&stage.dir(FIRST)).join(IMAGE))
        .env("LG_TAKT_LINE", stage.path().join("com1"))
        .env("TAKT", ours)
        .env("TAKT_HISTORY", stage.history())
        // Under icount a latency is a number of instructions.
        .env("TAKT_MAX_NS", "400")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .context("cannot run pytest")?;
    Done::of(&output).code(0)?.says("1 passed")?;
    Ok(())
}
