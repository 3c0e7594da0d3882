//! `prove` of the full image, and `budget check --bounds`: an instruction more is found where nothing runs that is measured.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Stage;
use super::stage::{Done, FIRST};
use takt_guest::Elf;

/// Who switches interrupts off for hwlat's tracer, which no workload has on.
const FUNCTION: &str = "hwlat4body";
/// `cli`, and the static branch behind it while it is not taken: `test eax, …`.
const PLACE: [u8; 2] = [0xfa, 0xa9];
/// In as many bytes: an instruction of four, and one more.
const ONE_MORE: [u8; 5] = [0x0f, 0x1f, 0x40, 0x00, 0x90];

pub(super) fn planted_instruction(stage: &Stage) -> Result<()> {
    let check = |path: &str| stage.xtask(&["budget", "check", "--bounds", "--image", path]);
    let path = Path::new(&stage.dir(FIRST)).join("takt.elf");
    let grows = |done: &Done| done.stdout.contains("bound.hwlat::watch");
    let before = check(&path.display().to_string())?;
    ensure!(!grows(&before), "{}", before.stdout);

    let elf = Elf::open(&path)?;
    let functions = elf.functions();
    let (begin, _) = functions
        .iter()
        .find(|(_, name)| name.contains(FUNCTION))
        .context("there is no such function")?;
    let code = elf.code_at(*begin);
    let at = code.windows(2).position(|bytes| bytes == PLACE);
    let at = begin + at.context("it has no such place")? as u64 + 1;
    let end = functions.iter().find(|(address, _)| address > begin);
    ensure!(end.is_none_or(|(end, _)| at < *end), "it has no such place");
    let offset = elf.offset_of(at, ONE_MORE.len());
    let offset = offset.context("the code is not in the file")?;
    let mut image = fs::read(&path)?;
    image[offset..offset + ONE_MORE.len()].copy_from_slice(&ONE_MORE);
    let planted = stage.dir("planted.elf");
    fs::write(&planted, image)?;
    let done = check(&planted)?;
    // With figures that nobody has looked at yet it is no success either.
    ensure!(grows(&done) && done.code != Some(0), "{}", done.stdout);
    Ok(())
}

/// What the timer's interrupt counts.
const TIMERS: &str = "timers that are due behind the first";

/// The stretch that begins with that function.
fn stretch<'p>(proof: &'p Value, function: &str) -> Result<&'p Value> {
    let all = proof["stretches"].as_array().context("no stretches")?;
    let is_it = |it: &&Value| {
        let place = it["place"].as_str().unwrap_or_default();
        place.starts_with(function) && it["to_thread"] == false
    };
    all.iter()
        .find(is_it)
        .with_context(|| format!("{function} begins no stretch"))
}

fn number(value: &Value) -> Result<u64> {
    value
        .as_u64()
        .with_context(|| format!("no number: {value}"))
}

/// What is known of the system bounds it closer, and what is no part of it is refused.
pub(super) fn of_what_is_known(stage: &Stage) -> Result<()> {
    let path = Path::new(&stage.dir(FIRST)).join("takt.elf");
    let path = path.display().to_string();
    let prove = |config: &[&str]| {
        let mut words = vec!["prove", "--image", &path, "--json", "-"];
        for it in config {
            words.extend(["--config", it]);
        }
        stage.xtask(&words)
    };
    let read = |config: &[&str]| -> Result<Value> {
        Ok(serde_json::from_str(&prove(config)?.code(0)?.stdout)?)
    };
    let all = read(&[])?;
    let [one, off] = [format!("{TIMERS}=1"), "counting at switches=off".to_owned()];
    // A formula says what is added by one count where the others are 0.
    let no_chain = "threads of a chain of owners that one interrupt walks along=0".to_owned();
    let known = read(&[&one, &off, &no_chain])?;
    ensure!(
        known["config"] == serde_json::json!([one, off, no_chain]),
        "{}",
        known["config"]
    );

    let timer = stretch(&all, "takt_irq_timer")?;
    let grows = timer["grows"].as_array().context("no formula")?;
    let each = grows.iter().find(|it| it["counts"] == TIMERS);
    let each = number(&each.context("it does not grow with timers")?["each"])?;
    let exact = stretch(&known, "takt_irq_timer")?;
    let [formula, exact] = [number(&timer["bound"])? + each, number(&exact["bound"])?];
    ensure!(exact <= formula, "{exact} is above {formula}");
    let [counted, not] =
        [&all, &known].map(|it| number(&stretch(it, "switch::blocked_apart")?["bound"]));
    ensure!(not? < counted?, "who counts takes no longer");

    // Each root that comes back has a bound, and so has each call.
    for (function, way) in [
        ("takt_exc_stubs", "same"),
        ("takt_irq_stubs", "thread"),
        ("takt_irq_stubs", "handler"),
    ] {
        number(&stretch(&all, function)?[way]["bound"])
            .with_context(|| format!("{function}: {way}"))?;
    }
    let calls = all["calls"].as_array().context("no calls")?;
    for name in ["semaphore take", "mutex lock", "sleep", "join", "park"] {
        let call = calls.iter().find(|it| it["name"] == name);
        number(&call.with_context(|| format!("no {name}"))?["thread"]["bound"])?;
    }
    let no_bound = all["stretches"]
        .as_array()
        .into_iter()
        .flatten()
        .chain(calls);
    let no_bound: Vec<_> = no_bound.filter(|it| !it["refused"].is_null()).collect();
    ensure!(no_bound.is_empty(), "{no_bound:?}");

    for (word, names) in [
        (
            "no such thing=off",
            vec!["cpus", TIMERS, "events::sched_switch::ID"],
        ),
        // A symbol that is no key's.
        ("takt_kernel::switch::preempt=on", vec!["static keys"]),
        ("counting at switches=on", vec!["cannot be always so"]),
        ("cpus=0", vec!["a number of CPUs"]),
    ] {
        let refused = prove(&[word])?.code(1)?.stderr;
        ensure!(
            names.iter().all(|it| refused.contains(it)),
            "{word}: {refused}"
        );
    }
    Ok(())
}
