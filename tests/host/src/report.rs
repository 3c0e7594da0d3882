//! The HTML report in a browser: no script error, no request to anywhere, every figure that of the JSON and of the trace,
//! and readable in light and dark, on a large screen and on a small one.
//!
//! With `TAKT_SCREENSHOTS=DIR` the pictures of it are kept, to be looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Stage;
use super::browser::{Browser, Look};
use takt_base::setup;

const FACTS: &str = include_str!("report_page.js");

/// A text that would do something if it were taken for HTML.
const HOSTILE: &str = "</style><script src=\"https://example.org/x.js\"></script><img src=\"//example.org/x\" onerror=\"x()\">";

const LOOKS: [(&str, Look); 4] = [
    (
        "light",
        Look {
            width: 1200,
            is_dark: false,
        },
    ),
    (
        "dark",
        Look {
            width: 1200,
            is_dark: true,
        },
    ),
    (
        "small-light",
        Look {
            width: 390,
            is_dark: false,
        },
    ),
    (
        "small-dark",
        Look {
            width: 390,
            is_dark: true,
        },
    ),
];

/// A page is made of runs under load, on two CPUs, of cyclictest and without a trace, and looked at.
pub(super) fn in_a_browser(stage: &Stage) -> Result<()> {
    let program = match setup::ensure_browser(stage.may_install()) {
        Ok(program) => program,
        Err(error) => {
            tell!("\nNOT TESTED: reports in a browser. {error:#}\n");
            return Ok(());
        }
    };
    stage.latency_run("mix", "-d 400ms --load mix")?.code(0)?;
    stage
        .latency_run("lock", "-d 400ms --load lock --warm-up 20ms")?
        .code(0)?;
    stage
        .latency_run("wide", "-d 50ms --smp 2 --load cpu")?
        .code(0)?;
    stage.latency_run("idle", "-d 30ms")?.code(0)?;
    stage.latency_run("silent", "-d 20ms -e none")?.code(0)?;
    stage.cyclictest("cyclic", "-t 2 -D 100ms")?.code(0)?;
    let runs = Run::all(stage, &["mix", "lock", "wide", "idle", "silent", "cyclic"])?;
    let mut browser = Browser::start(&program)?;
    for names in [
        &["mix"][..],
        &["lock", "mix", "silent"],
        &["wide"],
        &["idle"],
        &["cyclic"],
    ] {
        let page = make(stage, names)?;
        for (look_name, look) in LOOKS {
            let facts = look_at(
                &mut browser,
                &page,
                look,
                &format!("{}-{look_name}", names.join("+")),
            )
            .with_context(|| format!("{names:?} in {look_name}"))?;
            check_figures(&runs, names, &facts).with_context(|| format!("{names:?}"))?;
        }
    }
    Ok(())
}

/// What a run's files say.
struct Run {
    document: Value,
    trace: Vec<Value>,
}

impl Run {
    /// Each is read once: to read all of a trace takes seconds.
    fn all<'n>(stage: &Stage, names: &[&'n str]) -> Result<BTreeMap<&'n str, Self>> {
        let read = |name: &&'n str| {
            let (document, trace) = (stage.document(name)?, stage.trace(name)?);
            Ok((*name, Self { document, trace }))
        };
        names.iter().map(read).collect()
    }
}

/// Makes the page of these runs.
fn make(stage: &Stage, names: &[&str]) -> Result<PathBuf> {
    let bench = stage.dir("bench.json");
    let row = |name: String, value: u64| json!({"name": name, "unit": "insn", "value": value});
    let mut rows: Vec<_> = [(1, 79), (10, 80), (250, 81)]
        .map(|(nr, value)| row(format!("pick-{nr}"), value))
        .to_vec();
    rows.extend((1..4).map(|nr| row(format!("{HOSTILE}-{nr}"), nr)));
    fs::write(
        &bench,
        json!({"schema": "takt.bench/1", "rows": rows}).to_string(),
    )?;
    let page = stage.dir(&format!("{}.html", names.join("-")));
    let dirs: Vec<_> = names.iter().map(|name| stage.dir(name)).collect();
    let mut words = vec!["report", "-o", &page, "--bench", &bench];
    words.extend(dirs.iter().map(String::as_str));
    stage.xtask(&words)?.code(0)?.says(&page)?;
    Ok(page.into())
}

/// Opens the page, and demands what must hold whatever it is about.
fn look_at(browser: &mut Browser, page: &Path, look: Look, name: &str) -> Result<Value> {
    let events = browser.open(page, look)?;
    let url = format!("file://{}", page.display());
    for event in &events {
        let said = event["method"].as_str().unwrap_or_default();
        let complaints = [
            "Log.entryAdded",
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
        ];
        ensure!(!complaints.contains(&said), "the browser says {event}");
        let asks = ["Network.requestWillBeSent", "Network.webSocketCreated"];
        ensure!(
            !asks.contains(&said) || event["params"]["request"]["url"] == url.as_str(),
            "a request to elsewhere: {event}"
        );
    }
    let requests = events
        .iter()
        .filter(|event| event["method"] == "Network.requestWillBeSent");
    ensure!(
        requests.count() == 1,
        "the page itself was not asked for once"
    );
    let facts = browser.evaluate(FACTS)?;
    ensure!(facts["scripts"] == 0, "there are scripts in it");
    let elements = facts["elements"].as_array().context("no elements")?;
    for dangerous in ["script", "img", "iframe", "link", "object", "embed"] {
        ensure!(
            !elements.iter().any(|it| it == dangerous),
            "there is an element {dangerous}"
        );
    }
    for fault in ["faint", "small", "cut", "overlapping"] {
        ensure!(
            facts[fault] == json!([]),
            "text that is {fault}: {}",
            facts[fault]
        );
    }
    ensure!(
        facts["overflow"] == 0,
        "the page is {} px wider than the screen",
        facts["overflow"]
    );
    let ground = if look.is_dark {
        "rgb(20, 23, 27)"
    } else {
        "rgb(255, 255, 255)"
    };
    ensure!(
        facts["ground"] == ground,
        "the ground is {}",
        facts["ground"]
    );
    let picture = browser.screenshot()?;
    ensure!(picture.len() > 50_000, "its picture is all but empty");
    if let Some(dir) = std::env::var_os("TAKT_SCREENSHOTS") {
        fs::create_dir_all(&dir)?;
        fs::write(
            Path::new(&dir).join(format!("{name}.png")),
            from_base64(&picture),
        )?;
    }
    Ok(facts)
}

/// Holds what the page says against the JSON and the traces of the runs.
fn check_figures(runs: &BTreeMap<&str, Run>, names: &[&str], facts: &Value) -> Result<()> {
    let runs: Vec<_> = names.iter().map(|name| &runs[name]).collect();
    let list = |name: &str| facts[name].as_array().with_context(|| format!("no {name}"));
    let of = |it: &Value| Ok::<_, anyhow::Error>(it["run"].as_u64().context("no run")? as usize);
    let path = |it: &Value| it["path"].as_str().unwrap_or_default().to_owned();

    let mut seen = BTreeSet::new();
    for it in list("figures")? {
        let (run, path) = (of(it)?, path(it));
        let value = runs[run]
            .document
            .pointer(&path)
            .with_context(|| format!("no {path}"))?;
        let expected = shown(value);
        ensure!(
            it["text"] == expected.as_str(),
            "{path}: {} instead of {expected}",
            it["text"]
        );
        seen.insert((run, path));
    }
    for (run, Run { document, .. }) in runs.iter().enumerate() {
        let cpus = document["cpus"].as_array().context("no CPUs")?;
        for (nr, cpu) in cpus.iter().enumerate() {
            for which in ["irq", "thread"] {
                if cpu[which]["count"] == 0 {
                    continue;
                }
                for figure in ["count", "min", "avg", "p50", "p99", "p999", "max"] {
                    let path = format!("/cpus/{nr}/{which}/{figure}");
                    ensure!(
                        seen.contains(&(run, path.clone())),
                        "{path} of run {run} is not there"
                    );
                }
                check_buckets(facts, run, document, &format!("/cpus/{nr}/{which}/hist"))?;
            }
        }
    }
    // Also of records that came long before: an idle system's worst activation follows upon milliseconds of nothing.
    let records = list("records")?;
    let is_told = |it: &Value| it.as_str().is_some_and(|it| !it.starts_with(':'));
    ensure!(
        records.iter().all(is_told) && (records.len() > 6 || names == ["silent"]),
        "records without a text: {records:?}"
    );
    for (run, name) in names.iter().enumerate() {
        let rows: Vec<_> = list("worst")?
            .iter()
            .filter(|row| row["run"] == run)
            .collect();
        check_worst(runs[run], &rows).with_context(|| format!("the worst of {name}"))?;
    }
    let pick: Vec<_> = list("bench")?
        .iter()
        .filter(|it| it["name"] != "")
        .take(3)
        .cloned()
        .collect();
    let last = list("bench")?
        .iter()
        .map(|it| it["value"].clone())
        .collect::<Vec<_>>();
    ensure!(
        pick.len() == 3 && last.iter().any(|it| it == 81),
        "the bench table is not there"
    );
    for title in ["logarithmic", "linear", "Percentiles", "operation costs"] {
        ensure!(
            list("pictures")?
                .iter()
                .any(|it| it.as_str().is_some_and(|it| it.contains(title))),
            "no picture {title}"
        );
    }
    Ok(())
}

/// A figure as the page has it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "–".into(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            format!("{:.3}", number.as_f64().unwrap_or_default())
        }
        Value::Array(list) => list.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The buckets of a picture sum up to those of the document, all of them.
fn check_buckets(facts: &Value, run: usize, document: &Value, path: &str) -> Result<()> {
    let exact: Vec<(u64, u64)> =
        serde_json::from_value(document.pointer(path).context("no histogram")?.clone())?;
    let rows = facts["buckets"].as_array().context("no buckets")?;
    let mut nr = 0;
    for row in rows
        .iter()
        .filter(|row| row["run"] == run && row["path"] == path)
    {
        let (from, to, count): (u64, u64, u64) = serde_json::from_value(row["cells"].clone())?;
        let inside = exact.iter().filter(|(ns, _)| (from..=to).contains(ns));
        let expected: u64 = inside.map(|(_, count)| count).sum();
        ensure!(
            count == expected,
            "{path}: {count} samples from {from} to {to} instead of {expected}"
        );
        nr += count;
    }
    let all: u64 = exact.iter().map(|(_, count)| count).sum();
    ensure!(nr == all, "{path}: {nr} samples instead of {all}");
    Ok(())
}

/// The worst ten are those of the trace, and their causes add up.
fn check_worst(Run { document, trace }: &Run, rows: &[&Value]) -> Result<()> {
    let samples = |event: &str| -> Vec<_> {
        let field =
            |record: &Value, field: &str| record["fields"][field].as_u64().unwrap_or_default();
        let records = trace.iter().filter(|record| record["event"] == event);
        records
            .map(|it| {
                (
                    field(it, "timer_latency"),
                    field(it, "slot"),
                    field(it, "seqnum"),
                )
            })
            .collect()
    };
    let mut threads = samples("timerlat:timerlat_thread");
    let irqs = samples("timerlat:timerlat_irq");
    // A warm-up comes first and is not counted.
    let counted: u64 = document["cpus"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|cpu| cpu["thread"]["count"].as_u64())
        .sum();
    let warm_up = threads.len().saturating_sub(counted as usize);
    threads.drain(..warm_up.min(threads.len()));
    let mut worst: Vec<_> = threads.iter().map(|&(latency, ..)| latency).collect();
    worst.sort_unstable_by(|a, b| b.cmp(a));
    worst.truncate(10);
    let number = |row: &Value, name: &str| row[name].as_u64().unwrap_or(u64::MAX);
    let found: Vec<_> = rows.iter().map(|row| number(row, "thread")).collect();
    ensure!(found == worst, "{found:?} instead of {worst:?}");
    for row in rows {
        let (thread, seq) = (number(row, "thread"), number(row, "seq"));
        ensure!(
            threads
                .iter()
                .any(|&(latency, _, nr)| (latency, nr) == (thread, seq)),
            "no such sample: {row}"
        );
        if !row["irq"].is_null() {
            let irq = number(row, "irq");
            ensure!(
                irqs.iter()
                    .any(|&(latency, _, nr)| (latency, nr) == (irq, seq)),
                "no such IRQ: {row}"
            );
        }
        let causes = row["causes"].as_array().context("no causes")?;
        let sum: u64 = causes.iter().filter_map(Value::as_u64).sum();
        ensure!(sum == thread, "the causes are {sum}, not {thread}: {row}");
        let due = number(row, "due");
        let expired =
            |it: &Value| it["event"] == "timer:timer_expire" && it["fields"]["expires"] == due;
        ensure!(trace.iter().any(expired), "no timer was due then: {row}");
    }
    Ok(())
}

/// The bytes that base64 stands for.
fn from_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text
        .bytes()
        .filter_map(|byte| DIGITS.iter().position(|&digit| digit == byte));
    let (mut bytes, mut bits, mut nr) = (Vec::new(), 0usize, 0);
    for digit in digits {
        bits = bits << 6 | digit;
        nr += 6;
        if nr >= 8 {
            nr -= 8;
            bytes.push((bits >> nr) as u8);
            bits &= (1 << nr) - 1;
        }
    }
    bytes
}
