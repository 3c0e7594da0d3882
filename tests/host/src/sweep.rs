//! `latency-sweep`: what is planted is found to the instruction, wherever it is; a sweep that was killed, or cut into
//! shards, gives what it gives in one piece, on a cluster too.

mod slurm;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::FIRST;
use super::stage::{Done, Stage, wait_until};
use takt_guest::place::Kind;
use takt_sweep::document::{self, Document, Where};

/// Instructions of what is planted (tests/src/bin/planted.rs).
const PLANTED: u32 = 37;

/// A place from 1 to 400 that is another one each time.
fn anywhere() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    1 + now.map_or(7, |now| now.subsec_micros()) % 400
}

/// A sweep of the image `planted`.
const PLANTED_IMAGE: [&str; 6] = [
    "latency-sweep",
    "--package",
    "takt-tests",
    "--bin",
    "planted",
    "--quiet",
];

/// Sweeps the image `planted`.
fn sweep(stage: &Stage, name: &str, append: &str, more: &[&str]) -> Result<Done> {
    let dir = stage.dir(name);
    stage.xtask(&[&PLANTED_IMAGE[..], &["-o", &dir, "--append", append], more].concat())
}

fn document(stage: &Stage, name: &str) -> Result<Document> {
    Ok(serde_json::from_slice(&stage.read(name, document::FILE)?)?)
}

/// The sections of a kind that a sweep has found.
fn sections(document: &Document, kind: Kind) -> Vec<&Where> {
    document
        .results
        .iter()
        .flat_map(|it| &it.sections)
        .filter(|it| it.kind == kind)
        .collect()
}

/// A section of 37 instructions at a random place, alone and under other circumstances: found with its line and length.
pub(super) fn finds_what_is_planted(stage: &Stage) -> Result<()> {
    let source = include_str!("../../src/bin/planted.rs");
    let line = source
        .lines()
        .position(|line| line.contains("asm!(\"cli\""))
        .context("the section is gone from its source")?;
    let expected = format!("planted::planted (tests/src/bin/planted.rs:{})", line + 1);
    for kind in ["plain", "nested", "lock"] {
        let at = anywhere();
        let name = format!("planted-{kind}");
        let told = format!("plant={kind} plant_at={at}");
        sweep(stage, &name, &told, &[])?.code(0)?.says(&expected)?;
        let document = document(stage, &name)?;
        ensure!(document.is_complete(), "{told}: not complete");
        let found = sections(&document, Kind::IrqsOff);
        let is_it = |it: &&&Where| {
            let begin = it.begin.as_ref();
            it.length == PLANTED && begin.is_some_and(|begin| begin.line == expected)
        };
        ensure!(
            found.iter().filter(is_it).count() == 1,
            "{told}: no section of {PLANTED} at {expected} in {found:#?}"
        );
        let around = sections(&document, Kind::PreemptOff);
        ensure!(
            around.len() == usize::from(kind == "nested"),
            "{told}: preemption is off in {around:#?}"
        );
        ensure!(around.iter().all(|it| it.length > PLANTED), "{around:#?}");
    }
    let [swept, other] = [stage.dir("planted-lock"), stage.dir(FIRST) + "/takt.elf"];
    let proof = stage.xtask(&["prove", "--sweep", &swept])?.code(0)?;
    let line = proof.stdout.lines().find(|it| it.contains(&*expected));
    let has_witness = line.is_some_and(|it| it.matches(&PLANTED.to_string()).count() > 1);
    ensure!(has_witness, "{line:?}");
    let refused = stage.xtask(&["prove", "--sweep", &swept, "--image", &other])?;
    let refused = refused.code(1)?.stderr;
    ensure!(
        refused.contains("is not the image that was swept"),
        "{refused}"
    );
    let mut lengths = Vec::new();
    for long in ["", " plant_long=1"] {
        let name = format!("interrupt{}", long.len());
        sweep(
            stage,
            &name,
            &format!("plant=interrupt plant_at=50{long}"),
            &[],
        )?
        .code(0)?;
        let document = document(stage, &name)?;
        let found = sections(&document, Kind::Interrupt);
        ensure!(found.len() == 1, "one interrupt: {found:#?}");
        lengths.push(found[0].length);
    }
    ensure!(
        lengths[1] - lengths[0] == PLANTED,
        "in an interrupt: {lengths:?}"
    );
    let done = sweep(
        stage,
        "nothing",
        "plant=none",
        &["--workload", "no-such-thing"],
    )?
    .code(1)?;
    ensure!(done.stderr.contains("no workload"), "{}", done.stderr);
    Ok(())
}

/// A function without arguments is called again and again; one that would find nothing but rubbish in them is refused, and
/// nothing is begun.
pub(super) fn entries_take_no_arguments(stage: &Stage) -> Result<()> {
    sweep(stage, "entry", "", &["--entry", "planted::planted"])?.code(0)?;
    let result = document(stage, "entry")?;
    ensure!(result.is_complete(), "not complete");
    let found = sections(&result, Kind::IrqsOff);
    ensure!(
        found.iter().any(|it| it.length == PLANTED),
        "no section of {PLANTED} in {found:#?}"
    );
    for (name, says) in [
        ("planted::filler", "it takes rounds"),
        // A method, whose arguments are those of its declaration as well.
        ("unlock_slow", "it takes self"),
        ("planted::large", "its result of 64 bytes"),
    ] {
        let done = sweep(stage, "refused", "", &["--entry", name])?.code(1)?;
        ensure!(
            done.stderr.contains(says) && done.stderr.contains("help: sweep a function without"),
            "{name}: {}",
            done.stderr
        );
        ensure!(
            !Path::new(&stage.dir("refused")).exists(),
            "{name}: it was begun"
        );
    }
    Ok(())
}

/// The loads, which arm timers and are preempted: each arrival is on one of several ways, and nothing outside of interrupts
/// keeps them waiting for long.
pub(super) fn sweeps_loads(stage: &Stage) -> Result<()> {
    let dir = stage.dir("loads");
    let words = [
        "latency-sweep",
        "--quiet",
        "--workload",
        "loads",
        "-o",
        &dir,
    ];
    stage
        .xtask(&words)?
        .code(0)?
        .says("every arrival was taken")?;
    let document = document(stage, "loads")?;
    for stretch in &document.results {
        ensure!(
            stretch.ways > 1 && stretch.hit == stretch.swept && stretch.swept > 20_000,
            "{}: {} of {} on {} ways",
            stretch.name,
            stretch.hit,
            stretch.swept,
            stretch.ways
        );
    }
    let mut sections = sections(&document, Kind::IrqsOff);
    sections.sort_by_key(|it| it.length);
    let longest = sections.last().map_or(0, |it| it.length);
    ensure!((50..=110).contains(&longest), "{:#?}", sections.last());
    Ok(())
}

/// A stretch of several parts.
const LONG: &str = "plant=plain plant_at=3000";

/// Killed while it works and resumed, and from two shards: the same as in one piece.
pub(super) fn resumes_and_merges(stage: &Stage) -> Result<()> {
    sweep(stage, "whole", LONG, &[])?.code(0)?;
    let whole = document(stage, "whole")?;
    let dir = stage.dir("killed");
    kill_half_way(stage, &dir)?;
    let parts = |dir: &str| fs::read_dir(format!("{dir}/parts")).map_or(0, Iterator::count);
    ensure!(
        parts(&dir) < parts(&stage.dir("whole")),
        "it was done before it could be killed"
    );
    let scratch = || -> Result<usize> {
        let entries = fs::read_dir(&dir)?.flatten();
        let is_hidden = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
        Ok(entries.filter(is_hidden).count())
    };
    // Of a process that is no more; the one that was killed may have left one, too.
    fs::create_dir(format!("{dir}/.boot-x.tmp-4294967295"))?;
    let resumed = ["latency-sweep", "--quiet", "--resume", &dir];
    stage.xtask(&resumed)?.code(0)?;
    ensure!(scratch()? == 0, "what the killed sweep left is still there");
    ensure!(
        document(stage, "killed")?.results == whole.results,
        "resumed, it is another sweep"
    );
    for shard in ["1/2", "2/2"] {
        let name = format!("shard-{}", &shard[..1]);
        let done = sweep(stage, &name, LONG, &["--shard", shard])?.code(0)?;
        ensure!(done.stderr.contains("--merge"), "{}", done.stderr);
    }
    let (one, two, merged) = (
        stage.dir("shard-1"),
        stage.dir("shard-2"),
        stage.dir("merged"),
    );
    let words = [
        "latency-sweep",
        "--quiet",
        "-o",
        &merged,
        "--merge",
        &one,
        &two,
    ];
    stage.xtask(&words)?.code(0)?;
    ensure!(
        document(stage, "merged")?.results == whole.results,
        "merged, it is another sweep"
    );
    // Parts of another sweep are refused.
    sweep(stage, "elsewhere", "plant=plain plant_at=10", &[])?.code(0)?;
    let other = stage.dir("other");
    let words = [
        "latency-sweep",
        "--quiet",
        "-o",
        &other,
        "--merge",
        &one,
        &stage.dir("elsewhere"),
    ];
    let done = stage.xtask(&words)?.code(1)?;
    ensure!(done.stderr.contains("another sweep"), "{}", done.stderr);
    slurm::is_as_in_one_piece(stage, "whole")
}

/// Starts a sweep and kills it as soon as its first part is there.
fn kill_half_way(stage: &Stage, dir: &str) -> Result<()> {
    let words = [
        &PLANTED_IMAGE[..],
        &["--jobs", "1", "-o", dir, "--append", LONG],
    ]
    .concat();
    let mut child = stage
        .command(&words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let has_part = || {
        fs::read_dir(format!("{dir}/parts")).is_ok_and(|entries| {
            let names = entries.flatten().map(|entry| entry.file_name());
            let mut names = names.map(|name| name.to_string_lossy().into_owned());
            names.any(|name| name.ends_with(".json") && !name.contains("path"))
        })
    };
    let waited = wait_until(has_part);
    child.kill()?;
    child.wait()?;
    waited.context("no part was measured")
}

/// A file of a sweep's folder, edited by hand: what replaces what in which file, and what is said.
type Edit = (&'static str, &'static str, &'static str, &'static str);

/// A plan or an image that is another one than what was measured by is refused, with the reason; parts and results that were
/// edited are said to be.
pub(super) fn refuses_what_was_changed(stage: &Stage) -> Result<()> {
    sweep(stage, "changed", "plant=plain plant_at=10", &[])?
        .code(0)?
        .says(">: nop")?;
    let dir = stage.dir("changed");
    let plan = format!("{dir}/sweep-plan.json");
    let worst = document(stage, "changed")?.results[0].thread.max;
    let part = fs::read_dir(format!("{dir}/parts"))?
        .flatten()
        .map(|it| it.path())
        .find(|it| !it.to_string_lossy().contains("-path"))
        .context("no part was written")?;
    let resume = ["latency-sweep", "--quiet", "--resume", &dir];
    let refused = |path: &Path, from: &str, to: &str, says: &str| -> Result<()> {
        let before = fs::read_to_string(path)?;
        let edited = before.replace(from, to);
        ensure!(edited != before, "{} has no {from}", path.display());
        fs::write(path, edited)?;
        let done = stage.xtask(&resume)?.code(1)?;
        ensure!(
            done.stderr.contains(says) && done.stderr.contains("help: "),
            "{from} to {to}: {}",
            done.stderr
        );
        fs::write(path, before)?;
        Ok(())
    };
    let image = document(stage, "changed")?.config.image;
    let (from, to) = (format!("\"image\": {image}"), "\"image\": 5");
    refused(plan.as_ref(), &from, to, "not the image that was swept")?;
    let edits: [Edit; 3] = [
        ("step", "1", "0", "`step` is 0"),
        ("step", "1", "2", "measured by another plan"),
        ("priority", "95", "96", "measured by another plan"),
    ];
    for (field, from, to, says) in edits {
        let (from, to) = (format!("\"{field}\": {from}"), format!("\"{field}\": {to}"));
        refused(plan.as_ref(), &from, &to, says)?;
    }
    let (from, to) = (format!(",{worst},"), format!(",{},", worst - 1));
    // A part that was edited is read, and the result says so.
    let before = fs::read_to_string(&part)?;
    fs::write(&part, before.replace(&from, &to))?;
    let done = stage.xtask(&resume)?.code(0)?;
    done.says("  edited: marked-0-")?
        .complains("was changed after it was measured")?;
    fs::write(&part, before)?;
    stage.xtask(&resume)?.code(0)?;

    let results = format!("{dir}/{}", document::FILE);
    let show = ["latency-sweep", "--from", &dir];
    let json = fs::read_to_string(&results)?;
    let lower = json.replace(&format!("\"max\": {worst}"), "\"max\": 5");
    fs::write(&results, lower)?;
    stage.xtask(&show)?.code(0)?.says("  edited: sweep.json")?;
    fs::write(&results, &json[..json.len() / 2])?;
    let done = stage.xtask(&show)?.code(1)?;
    done.complains("it is damaged")?.complains("--resume")?;
    // As that says.
    stage.xtask(&resume)?.code(0)?;
    ensure!(fs::read_to_string(&results)? == json, "it is another one");
    stage.xtask(&show)?.code(0)?.says("these are the maxima")?;

    // With another QEMU nothing more is measured; what was, is there.
    let begun = fs::read_to_string(&plan)?;
    fs::write(&plan, begun.replace("\"qemu\": \"", "\"qemu\": \"other "))?;
    fs::remove_dir_all(format!("{dir}/parts"))?;
    let done = stage.xtask(&resume)?.code(1)?;
    ensure!(
        done.stderr.contains("was begun with `other "),
        "{}",
        done.stderr
    );
    Ok(())
}

/// A part of a stretch is not called the whole, and a sweep that met nothing is none.
pub(super) fn says_what_it_swept(stage: &Stage) -> Result<()> {
    const AT: &str = "plant=plain plant_at=10";
    let part = sweep(stage, "part", AT, &["--window", "7"])?.code(0)?;
    part.says("the first 7 of ")?
        .says("the maxima of what was swept")?;
    let coarse = sweep(stage, "coarse", AT, &["--step", "1000"])?.code(1)?;
    coarse.says("not measured: ")?.says("one in 1000")?;
    Ok(())
}

/// An hour of samples never meets the section; the sweep does.
pub(super) fn finds_what_samples_miss(stage: &Stage) -> Result<()> {
    let dir = stage.dir("sampled");
    let append = "sample_hours=1 plant_at=30";
    let words = [
        "run",
        "planted",
        "--package",
        "takt-tests",
        "--bin",
        "--event",
        "none",
        "--timeout",
        "300",
        "-o",
        &dir,
        "--append",
        append,
    ];
    let done = stage.xtask(&words)?.code(0)?;
    let line = done
        .stdout
        .lines()
        .find(|line| line.contains("worst IRQ latency"))
        .with_context(|| format!("nothing was sampled:\n{}{}", done.stdout, done.stderr))?;
    let numbers: Vec<u32> = line
        .split("sampled")
        .nth(1)
        .unwrap_or_default()
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    let (samples, worst) = (numbers[0], numbers[1]);
    sweep(stage, "swept", "plant=plain plant_at=30", &["--json", "-"])?.code(0)?;
    let json: Value = serde_json::from_slice(&stage.read("swept", document::FILE)?)?;
    let swept = json["results"][0]["irq"]["max"].as_u64().unwrap_or(0);
    ensure!(
        samples >= 89_000 && worst < 10 && swept >= u64::from(PLANTED),
        "{samples} samples say {worst}, the sweep says {swept}"
    );
    Ok(())
}
