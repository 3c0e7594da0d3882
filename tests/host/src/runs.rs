//! `latency-run`: what is measured, how it ends, and that it does so again to the byte.

use std::io::{BufRead, BufReader};

use anyhow::{Context, Result, bail, ensure};
use defmt_decoder::log::format::{Formatter, FormatterConfig};
use defmt_decoder::{DecodeError, Table};
use rustix::process::Signal;
use serde_json::Value;
use takt_decode::{Entry, FrameReader};

use super::tracefs::Running;
use super::{Done, FIRST, Stage, document};
use takt_base::paths;
use takt_machine::run::folder::{IMAGE, LOG};

/// Same image, same flags, same bytes.
pub(super) fn two_runs_are_identical(stage: &Stage) -> Result<()> {
    stage.latency_run("second", "-d 300ms")?.code(0)?;
    ["hist.csv", "trace.bin", "log.bin"]
        .iter()
        .try_for_each(|file| stage.same(file, "first", "second"))
}

/// The same on two CPUs, whose activations are staggered.
pub(super) fn identical_on_two_cpus(stage: &Stage) -> Result<()> {
    for load in ["none", "cpu", "irq", "mix"] {
        let names = ["1", "2"].map(|number| format!("two-{load}-{number}"));
        for name in &names {
            stage
                .latency_run(name, &format!("-d 100ms --smp 2 --load {load}"))?
                .code(0)?;
        }
        ["hist.csv", "trace.bin"]
            .iter()
            .try_for_each(|file| stage.same(file, &names[0], &names[1]))?;
    }
    Ok(())
}

/// The same where everything happens at once.
pub(super) fn identical_under_load(stage: &Stage) -> Result<()> {
    for name in ["mixed-1", "mixed-2"] {
        stage
            .latency_run(name, "-d 30ms -e all --load mix")?
            .code(0)?;
    }
    ["hist.csv", "trace.bin"]
        .iter()
        .try_for_each(|file| stage.same(file, "mixed-1", "mixed-2"))
}

/// Latencies that the guest counts in wide buckets have their own values all the same: those of the trace.
pub(super) fn large_latencies_are_exact(stage: &Stage) -> Result<()> {
    let words = "latency-run --no-install --no-history -d 50ms --load plant --append plant_ns=300000 -n -b 1 -o";
    let dir = stage.dir("large");
    let words: Vec<_> = words.split(' ').chain([&*dir]).collect();
    let done = stage.xtask(&words)?.code(0)?;
    ensure!(!done.stdout.contains("hint"), "{}", done.stdout);
    let hist = std::fs::read_to_string(format!("{dir}/hist.csv"))?;
    let mut counted: Vec<u64> = Vec::new();
    for line in hist.lines().skip(1) {
        let numbers: Vec<u64> = line.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let [ns, _, count] = numbers[..] else {
            anyhow::bail!("{line}");
        };
        counted.extend((0..count).map(|_| ns));
    }
    let is_sample = |record: &&Value| record["event"] == "timerlat:timerlat_thread";
    let trace = stage.trace("large")?;
    let mut recorded: Vec<_> = (trace.iter().filter(is_sample))
        .filter_map(|record| record["fields"]["timer_latency"].as_u64())
        .collect();
    recorded.sort_unstable();
    ensure!(counted == recorded, "{counted:?} and {recorded:?}");
    ensure!(counted.iter().any(|ns| *ns > 1 << 16), "{counted:?}");
    Ok(())
}

/// An image whose histograms are exact to 256 ns only: what is larger is known roughly, and said to be, where nothing was
/// recorded; and to the nanosecond with a trace.
pub(super) fn exact_range_is_a_capacity(stage: &Stage) -> Result<()> {
    let run = |name: &str, flags: &str| -> Result<_> {
        let words = "latency-run --no-install --no-history -d 100ms -p 70 --load plant --append plant_ns=3000 -o";
        let dir = stage.dir(name);
        let words: Vec<_> = words
            .split(' ')
            .chain([&*dir])
            .chain(flags.split(' '))
            .collect();
        let output = stage
            .command(&words)
            .env("TAKT_HISTOGRAM_BITS", "8")
            .output()?;
        let done = Done::of(&output).code(0)?;
        let hist = std::fs::read_to_string(format!("{dir}/hist.csv"))?;
        let values = hist
            .lines()
            .skip(1)
            .map(|line| Ok(line.split_once(',').context("a line")?.0.parse()?));
        Ok((done, values.collect::<Result<Vec<u64>>>()?))
    };
    let (done, values) = run("range-none", "-e none")?;
    done.says("values of 256 ns and more are known to 1/256")?;
    // From 512 ns on a bucket is named by its last value, which is odd, but those of the two maxima.
    let is_even = |ns: &&u64| **ns >= 512 && ns.is_multiple_of(2);
    ensure!(values.iter().filter(is_even).count() <= 2, "{values:?}");
    let (done, values) = run("range-trace", "-e timerlat")?;
    ensure!(!done.stdout.contains("known to 1/256"), "{}", done.stdout);
    ensure!(values.iter().filter(is_even).count() > 2, "{values:?}");
    Ok(())
}

/// Where sections are longer than the period, what is no sample is counted as missed, on each CPU: together they are the
/// activations of the duration, to the last one, neither those of the warm-up nor any behind the end.
pub(super) fn missed_are_counted(stage: &Stage) -> Result<()> {
    let flags = "-p 10 -d 20ms --warm-up 2ms -e none --load plant --smp 4 --json -";
    let run = stage.latency_run("missed", flags)?.code(0)?.json()?;
    let cpus = run["cpus"].as_array().context("no CPUs")?;
    ensure!(cpus.len() == 4, "{} CPUs", cpus.len());
    for cpu in cpus {
        let number = |value: &Value| value.as_u64().context("no number");
        let missed = number(&cpu["missed"])?;
        for which in ["irq", "thread"] {
            let samples = number(&cpu[which]["count"])?;
            ensure!(
                missed > 0 && samples + missed == 2000,
                "CPU {}: {samples} samples of {which}, {missed} missed",
                cpu["cpu"]
            );
        }
    }
    Ok(())
}

/// A run that a threshold stops; gives the last record of its trace, which is this event.
fn stopped_at(stage: &Stage, name: &str, flags: &str, event: &str) -> Result<Value> {
    let done = stage.latency_run(name, &format!("-d 300ms {flags}"))?;
    done.code(2)?.says("threshold")?;
    let last = stage.trace(name)?.pop().context("the trace is empty")?;
    ensure!(last["event"] == event, "the trace ends with {last}");
    Ok(last)
}

/// A threshold below every IRQ latency: the run ends with the first activation, and so does the trace.
pub(super) fn irq_threshold(stage: &Stage) -> Result<()> {
    let last = stopped_at(stage, "irq", "-i 0.001", "timerlat:timerlat_irq")?;
    ensure!(
        last["fields"]["seqnum"] == 1,
        "it was not the first activation: {last}"
    );
    Ok(())
}

/// The same for the thread's.
pub(super) fn thread_threshold(stage: &Stage) -> Result<()> {
    stopped_at(stage, "thread", "-T 0.05", "timerlat:timerlat_thread")?;
    stage
        .latency_run("high", "-d 50ms -i 100 -T 100")?
        .code(0)?;
    Ok(())
}

/// QEMU may wake a halted CPU some instructions late, once in ten thousand times (see `set_halt_margin` in the kernel):
/// in the idle system no activation may differ from the others.
pub(super) fn every_halt_ends_in_time(stage: &Stage) -> Result<()> {
    let flags = "-p 100 -d 2s -e none --json -";
    let done = stage.latency_run("halts", flags)?.code(0)?;
    let run = done.json()?;
    for context in ["irq", "thread"] {
        let latency = &run["cpus"][0][context];
        ensure!(latency["count"] == 20_000, "{latency}");
        ensure!(latency["min"] == latency["max"], "{context}: {latency}");
    }
    Ok(())
}

/// More events than time to hand them over: some are lost, counted, and the run is worth nothing.
pub(super) fn lost_events_taint(stage: &Stage) -> Result<()> {
    let done = stage
        .latency_run("tainted", "-p 1 -e all --load mix -d 20ms --json -")?
        .code(3)?;
    let run = done.json()?;
    ensure!(run["result"] == "tainted", "result {}", run["result"]);
    ensure!(
        run["taint"]
            .as_array()
            .is_some_and(|taint| !taint.is_empty()),
        "no taint is named"
    );
    let lost = run["trace"]["dropped"].as_u64().unwrap_or(0)
        + run["trace"]["overrun"].as_u64().unwrap_or(0);
    ensure!(lost > 0, "no event is counted as lost: {}", run["trace"]);
    Ok(())
}

/// A report on a run folder is the report of the run.
pub(super) fn report_from_folder(stage: &Stage) -> Result<()> {
    let again = stage
        .xtask(&["latency-run", "--from", &stage.dir("first")])?
        .code(0)?;
    ensure!(
        again.stdout == stage.stdout(),
        "first\n{}\nand from the folder\n{}",
        stage.stdout(),
        again.stdout
    );
    // The exit code is that of the run, too.
    stage.latency_run("stopped", "-d 50ms -i 0.001")?.code(2)?;
    stage
        .xtask(&["latency-run", "--from", &stage.dir("stopped")])?
        .code(2)?;
    stage
        .xtask(&["latency-run", "--from", &stage.dir("nothing")])?
        .code(1)?;
    Ok(())
}

/// The JSON document has every field that is promised, and its sums are right.
pub(super) fn json_schema(stage: &Stage) -> Result<()> {
    document::check(&stage.document("first")?)
}

/// The log has the messages of the start and of the end.
pub(super) fn log_is_decoded(stage: &Stage) -> Result<()> {
    let done = stage.xtask(&["log", &stage.dir("first")])?.code(0)?;
    let done = done
        .says("INFO")?
        .says("1000000000 Hz")?
        .says("period 1000000 ns")?
        .says("done")?;
    let theirs = by_defmt(stage)?;
    ensure!(
        theirs == done.stdout,
        "as defmt-print:\n{theirs}\nby log:\n{}",
        done.stdout
    );
    Ok(())
}

/// The log's bytes as the guest sent them, read by what defmt-print is made of, and by nothing of ours.
fn by_defmt(stage: &Stage) -> Result<String> {
    let elf = stage.read(FIRST, IMAGE)?;
    let table = Table::parse(&elf)?.context("no log formats")?;
    let locations = table.get_locations(&elf)?;
    let format = Formatter::new(FormatterConfig::custom("{t} {L} {s}  ({F}:{l:1})"));
    let log = stage.read(FIRST, LOG)?;
    let mut frames = FrameReader::log(&*log)?;
    let mut stream = table.new_stream_decoder();
    let mut text = String::new();
    while let Some(entry) = frames.next_entry()? {
        let Entry::Frame(sent) = entry else {
            bail!("the log is damaged")
        };
        stream.received(&sent.payload);
        loop {
            let frame = match stream.decode() {
                Ok(frame) => frame,
                Err(DecodeError::UnexpectedEof) => break,
                Err(DecodeError::Malformed) => bail!("a message makes no sense"),
            };
            let place = locations.get(&frame.index()).context("no place")?;
            let file = place.file.strip_prefix(paths::workspace());
            let file = file.unwrap_or(&place.file).to_string_lossy();
            let line = u32::try_from(place.line)?;
            let shown = format.format_frame(frame, Some(&file), Some(line), None);
            text += &console::strip_ansi_codes(&shown);
            text.push('\n');
        }
    }
    Ok(text)
}

pub(super) fn cyclictest(stage: &Stage) -> Result<()> {
    stage
        .cyclictest("cyclic", "-t 3 -D 100ms -v -o 10")?
        .code(0)?
        .says("Thread 2 Interval: 2000")?
        .says("\n       2:")?;
    let verdict = stage.xtask(&["latency-run", "--from", &stage.dir("cyclic")])?;
    verdict.code(0)?.says("result       passed")?;
    lines_come_while_it_runs(stage)?;
    // The numbers of the activations that the histogram does not reach.
    stage
        .cyclictest("beyond", "-l 7 -h 5 -N -q")?
        .code(0)?
        .says("# Thread 0: 00000 00001 00002 00003 00004 # 00002 others\n")?;
    // The first activation is at a full second and 70 µs of the guest's clock.
    let done = stage.cyclictest(
        "aligned",
        "--smp=2 -p 80 -i 1000 -l 5 --secaligned 70 --policy rr -N --spike 0.001",
    )?;
    let done = done.code(0)?;
    // The second's interval is 1500 µs.
    for (slot, count) in [(0, 5), (1, 4)] {
        let line = done.stdout.lines().nth(slot).context("no line")?;
        ensure!(
            line.starts_with(&format!("T: {slot} ("))
                && line.contains(" P:80 I:")
                && line.contains(&format!(" C:{count:7} ")),
            "{line}"
        );
    }
    let spikes = done
        .stdout
        .lines()
        .filter_map(|line| line.split_once("TS:"));
    let first = spikes.map(|(_, at)| at.trim()).next().context("no spike")?;
    ensure!(first.ends_with("000070"), "the first ran at {first} µs");
    Ok(())
}

/// A measurement without an end prints each activation as it comes, and what it prints is all that there was.
fn lines_come_while_it_runs(stage: &Stage) -> Result<()> {
    let dir = stage.dir("endless");
    let words = [
        "cyclictest",
        "--accel",
        "tcg",
        "--force",
        "--output",
        &dir,
        "-v",
    ];
    let mut run = Running::start(&mut stage.command(&words))?;
    let mut lines = BufReader::new(run.stdout()?).lines();
    let mut next = || lines.next().transpose();
    for expected in ["Max CPUs = 1", "Online CPUs = 1", "Thread 0 Interval: 1000"] {
        let line = next()?;
        ensure!(line.as_ref().is_some_and(|it| it == expected), "{line:?}");
    }
    let number = |line: &str| -> Result<u64> {
        let mut parts = line.split(':');
        let number = parts.nth(1).context("no number")?;
        Ok(number.trim().parse()?)
    };
    for expected in 0..300 {
        let line = next()?.context("it ended")?;
        ensure!(number(&line)? == expected, "{line}");
    }
    ensure!(!run.is_over()?, "it has ended by itself");
    run.signal(Signal::INT);
    let mut count = 300;
    while let Some(line) = next()? {
        ensure!(number(&line)? == count, "{line}");
        count += 1;
    }
    run.wait()?.code(0)?;
    let document = stage.document("endless")?;
    let measured = &document["cpus"][0]["thread"]["count"];
    ensure!(
        *measured == count,
        "{count} lines of {measured} activations"
    );
    Ok(())
}

/// Eight threads that together have more to do than there is time. The less important ones cannot keep up: each
/// activation either comes, late as it may be, or is counted as missed, and none is made up for.
pub(super) fn missed_activations(stage: &Stage) -> Result<()> {
    let flags = "-i 2 -t 8 --distance 0.1 -D 2ms --priospread --event none";
    stage.cyclictest("missed", flags)?.code(0)?;
    let run = stage.document("missed")?;
    let mut missed_by_all = 0;
    for slot in 0..8 {
        let row = &run["cpus"][slot];
        let number = |value: &Value| value.as_u64().context("no number");
        let (count, missed) = (number(&row["thread"]["count"])?, number(&row["missed"])?);
        missed_by_all += missed;
        let due = 2_000_000u64.div_ceil(2_000 + 100 * slot as u64);
        // The last sample may come behind the end, and with it what was missed since.
        ensure!(
            (due..=due + 2).contains(&(count + missed)),
            "thread {slot}: {count} samples and {missed} missed of {due}"
        );
        ensure!(
            slot > 0 || missed == 0,
            "the most important one missed {missed}"
        );
    }
    ensure!(missed_by_all > 1000, "only {missed_by_all} were missed");
    Ok(())
}

/// Each load lets the measurement through.
pub(super) fn every_load(stage: &Stage) -> Result<()> {
    for load in ["cpu", "irq", "lock", "mix"] {
        stage
            .latency_run(load, &format!("-d 20ms --load {load}"))?
            .code(0)?
            .says("result       passed")?;
    }
    // CPUs that compute all the time take turns under icount: none waits for long.
    stage
        .latency_run("cpu-4", "-d 50ms --smp 4 --load cpu")?
        .code(0)?
        .says("result       passed")?;
    for cpu in stage.document("cpu-4")?["cpus"]
        .as_array()
        .context("no CPUs")?
    {
        let (missed, max) = (&cpu["missed"], cpu["thread"]["max"].as_u64());
        ensure!(
            *missed == 0 && max.is_some_and(|max| max < 20_000),
            "{missed} missed, {max:?} ns"
        );
    }
    // The most threads that there can be.
    stage
        .latency_run("mix-8", "-d 5ms --smp 8 --load mix")?
        .code(0)?
        .says("result       passed")?;
    Ok(())
}
