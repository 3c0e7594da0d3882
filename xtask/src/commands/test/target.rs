//! The on-target tests: which there are, how each is booted, and what is to come of it.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::counted;
use super::guest::{Boot, Inject};
use super::storm;
use super::stress::{self, Round};
use super::tally::Tally;
use super::waits;
use crate::commands::bench::executed;
use takt_base::term::last_lines;
use takt_guest::Elf;
use takt_machine::counted::Plugin;
use takt_machine::qemu::process::MAX_CMDLINE;
use takt_machine::qemu::{Accel, GuestExit};

const PART: &str = "target";
/// How long a boot may take: some seconds, but other work may have the machine, too.
const LIMIT: Duration = Duration::from_secs(240);
/// How long one may take whose test is known to be slow.
const SLOW_LIMIT: Duration = Duration::from_secs(600);
/// Lines that are shown of what a machine that stopped has said.
const LAST_LINES: usize = 40;
/// 128 ns an instruction, for the slow ones.
const SLOW_SHIFT: u8 = 7;

/// A test as the image lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    name: String,
    kind: Kind,
    /// What the serial port has to show, in this order.
    texts: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One boot for all of them.
    Shared,
    /// A boot of its own.
    Alone,
    /// A boot of its own with a fast clock.
    Slow,
    /// A boot of its own with two CPUs, in real time.
    TwoCpus,
    /// Boots of its own in several machines and with several seeds.
    Stress,
    /// A boot of its own in real time and one under icount, each with NMIs from outside.
    Nmis,
    /// A boot of its own, and one without a tracer of which every instruction is counted.
    Counted,
    /// A boot of its own that ends in a fault.
    Fault,
    /// The same, by a machine check that the host injects.
    MachineCheck,
}

/// Which tests are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::commands) struct Choice {
    /// Only those whose names have one of these texts, if there are any.
    pub(in crate::commands) only: Vec<String>,
    /// None whose names have one of these.
    pub(in crate::commands) skip: Vec<String>,
    /// Names have to be the texts.
    pub(in crate::commands) is_exact: bool,
    /// None at all.
    pub(in crate::commands) is_none: bool,
}

impl Choice {
    /// Those whose names have this text; without one, all.
    pub(super) fn having(text: Option<&str>) -> Self {
        Self {
            only: text.map(str::to_owned).into_iter().collect(),
            ..Self::default()
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        let is_meant = |text: &String| match self.is_exact {
            true => name == text,
            false => name.contains(text),
        };
        let is_asked_for = self.only.is_empty() || self.only.iter().any(is_meant);
        is_asked_for && !self.skip.iter().any(is_meant) && !self.is_none
    }
}

/// The names of the image's tests that are meant.
pub(super) fn names(image: &Elf, choice: &Choice) -> Result<Vec<String>> {
    let names = list(image)?.into_iter().map(|test| test.name);
    let mut names: Vec<_> = names.filter(|name| choice.has(name)).collect();
    names.sort();
    Ok(names)
}

/// Runs the image's tests that are meant; gives the names of all that it has.
pub(super) fn run(
    image: &Elf,
    choice: &Choice,
    flags: &stress::Flags,
    tally: &Tally,
) -> Vec<String> {
    let listed = match list(image) {
        Ok(listed) => listed,
        Err(error) => {
            tally.failed(PART, "list", &format!("{error:#}"));
            return Vec::new();
        }
    };
    let names = listed.iter().map(|test| test.name.clone()).collect();
    let is_filtered = *choice != Choice::default();
    let (shared, single): (Vec<_>, Vec<_>) = listed
        .into_iter()
        .filter(|test| choice.has(&test.name))
        .partition(|test| test.kind == Kind::Shared);
    let (slow, quick): (Vec<_>, Vec<_>) =
        single.into_iter().partition(|test| test.kind == Kind::Slow);
    let queue = Mutex::new(quick);
    thread::scope(|scope| {
        for test in &slow {
            scope.spawn(|| tally.judge(PART, &test.name, &alone(image, test)));
        }
        run_shared(image, &shared, is_filtered, tally);
        loop {
            let next = queue.lock().map_or(None, |mut queue| queue.pop());
            let Some(test) = next else { break };
            if test.kind == Kind::Nmis {
                for (accel, clock) in [(Accel::Tcg, "real time"), (Accel::TcgIcount, "icount")] {
                    let name = format!("{} ({clock})", test.name);
                    tally.judge(PART, &name, &with_nmis(image, &test, accel));
                }
            } else if test.kind == Kind::Stress {
                for round in stress::rounds(flags) {
                    let name = round.name(&test.name);
                    let result = stressed(image, &test, round);
                    tally.judge(PART, &name, &result);
                    // The other machines may take their whole time as well.
                    if result.is_err() {
                        break;
                    }
                }
            } else if test.kind == Kind::Counted {
                tally.judge(PART, &test.name, &counted(image, &test));
            } else {
                tally.judge(PART, &test.name, &alone(image, &test));
            }
        }
    });
    names
}

/// Asks the image which tests it has.
fn list(image: &Elf) -> Result<Vec<Listed>> {
    let ended = boot(image, "test=list", Kind::Alone).run()?;
    ensure!(
        ended.exit == Some(GuestExit::Passed),
        "the image does not list its tests: {}",
        said(ended.exit, &ended.serial)
    );
    parse_list(&ended.serial)
}

fn parse_list(serial: &str) -> Result<Vec<Listed>> {
    let mut tests: Vec<Listed> = Vec::new();
    for line in serial.lines() {
        if let Some(text) = line.strip_prefix("text ") {
            tests
                .last_mut()
                .context("a text before the first test")?
                .texts
                .push(text.into());
        } else if let Some((kind, name)) = line
            .strip_prefix("list ")
            .and_then(|rest| rest.split_once(' '))
        {
            let kind = match kind {
                "shared" => Kind::Shared,
                "alone" => Kind::Alone,
                "slow" => Kind::Slow,
                "two-cpus" => Kind::TwoCpus,
                "stress" => Kind::Stress,
                "nmis" => Kind::Nmis,
                "counted" => Kind::Counted,
                "fault" => Kind::Fault,
                "machine-check" => Kind::MachineCheck,
                _ => bail!("an unknown kind of test: {line}"),
            };
            tests.push(Listed {
                name: name.into(),
                kind,
                texts: Vec::new(),
            });
        }
    }
    tests.sort_by(|a, b| b.name.cmp(&a.name));
    Ok(tests)
}

fn boot<'b>(image: &'b Elf, words: &'b str, kind: Kind) -> Boot<'b> {
    let (shift, limit) = if kind == Kind::Slow {
        (SLOW_SHIFT, SLOW_LIMIT)
    } else {
        (0, LIMIT)
    };
    let (accel, smp) = match kind {
        Kind::TwoCpus => (Accel::Tcg, 2),
        // The second one runs if the test starts it.
        Kind::Fault => (Accel::TcgIcount, 2),
        _ => (Accel::TcgIcount, 1),
    };
    Boot {
        image,
        words,
        accel,
        smp,
        shift,
        limit,
        executed: None,
        plugin: None,
        inject: (kind == Kind::MachineCheck).then_some(Inject::MachineCheck),
    }
}

/// Boots a test with NMIs from outside, and judges it and what it recorded; gives what is worth noting.
fn with_nmis(image: &Elf, test: &Listed, accel: Accel) -> Result<String> {
    let words = format!("test={}", test.name);
    let ended = Boot {
        accel,
        limit: SLOW_LIMIT,
        inject: Some(Inject::Nmis),
        ..boot(image, &words, test.kind)
    }
    .run()?;
    ensure!(
        ended.exit == Some(GuestExit::Passed),
        "{}",
        said(ended.exit, &image.annotate(&ended.serial))
    );
    let found = storm::judge(image, ended.dir.path(), &ended.serial)?;
    Ok(format!("{} ({found})", notes(&ended.serial)))
}

/// Boots a test with its tracers, and without them while every instruction is logged; judges the one by the other.
fn counted(image: &Elf, test: &Listed) -> Result<String> {
    let words = format!("test={}", test.name);
    let passed = |boot: Boot<'_>| {
        let ended = boot.run()?;
        ensure!(
            ended.exit == Some(GuestExit::Passed),
            "{}",
            said(ended.exit, &image.annotate(&ended.serial))
        );
        Ok(ended)
    };
    let traced = passed(boot(image, &words, test.kind))?;
    let log = traced.dir.path().join("executed");
    let ranges = executed::ranges(image)?;
    passed(Boot {
        executed: Some((&ranges, &log)),
        limit: SLOW_LIMIT,
        ..boot(image, &format!("{words} untraced=1"), test.kind)
    })?;
    let nr = counted::judge(image, &traced.serial, &log)?;
    Ok(format!(" ({nr} stretches)"))
}

/// How a boot ended that ended badly.
fn said(exit: Option<GuestExit>, serial: &str) -> String {
    let how = exit.map_or_else(|| "it did not end in time".into(), |exit| exit.to_string());
    format!("{how}\n{}", serial.trim_end())
}

/// Boots one test and judges it; gives what is worth noting.
fn alone(image: &Elf, test: &Listed) -> Result<String> {
    let words = format!("test={}", test.name);
    judge(image, test, &boot(image, &words, test.kind))
}

/// Boots the random stress in one of its machines.
fn stressed(image: &Elf, test: &Listed, round: Round) -> Result<String> {
    let words = round.words(&test.name);
    let boot = round.boot(boot(image, &words, test.kind));
    if let Some(one) = round.with_one_cpu() {
        return beside_one_cpu(image, test, &boot, one);
    }
    if !round.counts_waits() {
        return judge(image, test, &boot);
    }
    let scratch = takt_base::scratch::folder()?;
    let log = scratch.path().join("waits");
    let marks = waits::marks(image);
    let plugin = Plugin::with_marks(marks.iter().map(|(address, _)| *address))?;
    let plugin = Some((&plugin, log.as_path()));
    let notes = judge(image, test, &Boot { plugin, ..boot })?;
    let waits = waits::describe(&log, &marks, &notes, test.name.starts_with("stress::"))?;
    Ok(notes + &waits)
}

/// Boots the stress with two CPUs in real time, and then with one: says what the ratio of their rates is, if it has one.
fn beside_one_cpu(image: &Elf, test: &Listed, boot: &Boot<'_>, one: Round) -> Result<String> {
    let notes = judge(image, test, boot)?;
    let Some(rate) = stress::rate(&notes) else {
        return Ok(notes);
    };
    let words = one.words(&test.name);
    let alone = judge(image, test, &one.boot(self::boot(image, &words, test.kind)))?;
    let ratio = stress::rate(&alone).map(|one| format!(" ({:.2} of one CPU's rate)", rate / one));
    Ok(notes + &ratio.unwrap_or_default())
}

/// Boots what a test wants, and says whether it came to what it had to.
fn judge(image: &Elf, test: &Listed, boot: &Boot<'_>) -> Result<String> {
    let ended = boot.run()?;
    let report = image.annotate(&ended.serial);
    let expected = match test.kind {
        Kind::Fault | Kind::MachineCheck => GuestExit::Panicked,
        _ => GuestExit::Passed,
    };
    if ended.exit != Some(expected) {
        return Err(anyhow!("{}", said(ended.exit, &report)));
    }
    let mut rest = report.as_str();
    for text in &test.texts {
        let Some((_, behind)) = rest.split_once(text.as_str()) else {
            bail!("`{text}` is missing, or not in its place, in\n{report}");
        };
        rest = behind;
    }
    Ok(notes(&ended.serial))
}

/// The measured values that a test notes, as they are appended to its line.
fn notes(serial: &str) -> String {
    serial
        .lines()
        .filter_map(|line| line.split_once("note: "))
        .map(|(_, note)| format!(" ({note})"))
        .collect()
}

/// Bytes of names that a command line has room for, beside its other words.
const MAX_NAMES: usize = MAX_CMDLINE - 512;

/// Runs the tests that share a boot, in several if their names are too long for one command line.
fn run_shared(image: &Elf, tests: &[Listed], is_filtered: bool, tally: &Tally) {
    let mut rest = tests;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |test: &&Listed| {
            bytes += test.name.len() + 1;
            !is_filtered || bytes <= MAX_NAMES
        };
        let nr = rest.iter().take_while(fits).count().max(1);
        let (now, behind) = rest.split_at(nr);
        run_together(image, now, is_filtered, tally);
        rest = behind;
    }
}

/// Runs tests in one boot. Where one takes the machine down, those behind it get another.
fn run_together(image: &Elf, tests: &[Listed], is_filtered: bool, tally: &Tally) {
    let mut words = String::new();
    if is_filtered {
        let names: Vec<_> = tests.iter().map(|test| test.name.as_str()).collect();
        words = format!("test={}", names.join(","));
    }
    let mut left = tests.len();
    let mut after = String::new();
    while left > 0 {
        let ended = match boot(image, &format!("{words}{after}"), Kind::Shared).run() {
            Ok(ended) => ended,
            Err(error) => return tally.failed(PART, "boot", &format!("{error:#}")),
        };
        let results = parse_results(&ended.serial);
        let Some(last) = results.last() else {
            return tally.failed(PART, "boot", &said(ended.exit, &ended.serial));
        };
        after = format!(" after={}", last.name);
        left = left.saturating_sub(results.len());
        for result in &results {
            match &result.failure {
                None => tally.passed(PART, result.name, &result.notes),
                Some(Some(why)) => tally.failed(PART, result.name, why),
                Some(None) => tally.failed(
                    PART,
                    result.name,
                    &said(
                        ended.exit,
                        &image.annotate(&last_lines(&ended.serial, LAST_LINES).join("\n")),
                    ),
                ),
            }
        }
    }
}

/// What a shared boot says of one test.
#[derive(Debug, PartialEq, Eq)]
struct Line<'s> {
    name: &'s str,
    /// Why it failed; `Some(None)` if it has no result because the machine stopped.
    failure: Option<Option<String>>,
    notes: String,
}

fn parse_results(serial: &str) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for line in serial.lines() {
        let mut rest = line;
        if let Some((name, behind)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... "))
        {
            lines.push(Line {
                name,
                failure: Some(None),
                notes: String::new(),
            });
            rest = behind;
        }
        let Some(current) = lines.last_mut() else {
            continue;
        };
        if rest == "ok" {
            current.failure = None;
        } else if let Some(why) = rest.strip_prefix("FAILED: ") {
            current.failure = Some(Some(why.into()));
        } else if let Some(note) = rest.strip_prefix("note: ") {
            current.notes += &format!(" ({note})");
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read() {
        let tests =
            parse_list("list shared a::b\nlist fault c::d\ntext *** #PF\ntext x y\n").unwrap();
        assert_eq!(tests.len(), 2);
        assert_eq!(
            (tests[0].name.as_str(), tests[0].kind),
            ("c::d", Kind::Fault)
        );
        assert_eq!(tests[0].texts, ["*** #PF", "x y"]);
        assert!(parse_list("list odd a\n").is_err());
        assert!(parse_list("text a\n").is_err());
    }

    #[test]
    fn tests_are_chosen_as_libtest_does() {
        let words = |words: &[&str]| words.iter().map(|&it| it.to_owned()).collect();
        let of = |only: &[&str], skip: &[&str], is_exact| {
            let choice = Choice {
                only: words(only),
                skip: words(skip),
                is_exact,
                is_none: false,
            };
            let all = ["a::b", "a::bc", "d"];
            all.into_iter()
                .filter(|name| choice.has(name))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&[], &[], false), ["a::b", "a::bc", "d"]);
        assert_eq!(of(&["b", "d"], &["c"], false), ["a::b", "d"]);
        assert_eq!(of(&["a::b"], &[], true), ["a::b"]);
        assert_eq!(of(&[], &["a::b"], true), ["a::bc", "d"]);
    }

    #[test]
    fn results_are_read() {
        let serial = "test a ... ok\ntest b ... note: 3 ns\nok\ntest c ... FAILED: f.rs:3: no\ntest d ... \n*** #PF";
        let lines = parse_results(serial);
        let failures: Vec<_> = lines
            .iter()
            .map(|line| (line.name, line.failure.clone()))
            .collect();
        assert_eq!(
            failures,
            [
                ("a", None),
                ("b", None),
                ("c", Some(Some("f.rs:3: no".into()))),
                ("d", Some(None))
            ]
        );
        assert_eq!(lines[1].notes, " (3 ns)");
    }
}
