//! Files of ours that are damaged at random: a flipped bit, a cut, a stretch that is doubled. Each reader gives an error, or
//! what was there, or says that it was changed; and what was changed can be shown.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use takt_guest::Elf;
use takt_guest::place::Names;
use takt_image::tasks::manifest::Manifest;
use takt_machine::load;
use takt_results::history::{History, store};
use takt_sweep::budget::changes;
use takt_sweep::budget::file::Budget;
use takt_sweep::document::{self, Document};
use takt_sweep::{Folder, Plan, SweepConfig, What, text};
use takt_timerlat::sweep::Arrival;

use crate::common::{entry, run, write_folder};

/// Damaged forms of each file.
const NR: u64 = 200;

/// What a file holds, as text, and whether it is said to have been changed.
type Content = (String, bool);

/// Numbers that are the same each time (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end.max(1) as u64) as usize
    }

    fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let at = self.below(bytes.len());
        match self.below(3) {
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes.truncate(at),
            _ => {
                let end = at + self.below(bytes.len() - at).min(64) + 1;
                let doubled = bytes[at..end.min(bytes.len())].to_vec();
                bytes.splice(at..at, doubled);
            }
        }
        bytes
    }
}

/// Has a file read in all its damaged forms.
fn is_never_silent(path: &Path, read: impl Fn() -> Result<Content>) {
    let bytes = fs::read(path).unwrap();
    let (whole, is_changed) = read().unwrap();
    assert!(!is_changed, "{}: as it was written", path.display());
    let mut random = Random(7);
    let mut refused = 0;
    for number in 0..NR {
        fs::write(path, random.damage(&bytes)).unwrap();
        match read() {
            Err(_) => refused += 1,
            Ok((content, is_changed)) => assert!(
                is_changed || content == whole,
                "{}, number {number}: {content}",
                path.display()
            ),
        }
    }
    assert!(refused > NR / 4, "{}: {refused} refused", path.display());
    fs::write(path, bytes).unwrap();
}

#[test]
fn runs() {
    let dir = tempfile::tempdir().unwrap();
    let mut measured = run("none", "tcg+icount", &[300, 301, 307]);
    write_folder(dir.path(), &measured);
    let hist = fs::read_to_string(dir.path().join("hist.csv")).unwrap();
    measured.record.sum = Some(measured.record.sum_with(&hist));
    write_folder(dir.path(), &measured);
    for file in ["run.json", "hist.csv"] {
        is_never_silent(&dir.path().join(file), || {
            let mut run = load::load(dir.path())?;
            // Without it a record is one of an older version, and else the same.
            run.record.sum = None;
            let is_changed = std::mem::take(&mut run.record.is_edited);
            Ok((format!("{run:?}"), is_changed))
        });
    }
}

#[test]
fn the_history() {
    let dir = tempfile::tempdir().unwrap();
    let path = store::write(dir.path(), &entry(&[300, 307])).unwrap();
    is_never_silent(&path, || {
        let history = History::open(dir.path())?;
        let rows = history.summaries(history.runs())?;
        // What cannot be read is noted, and no row.
        ensure!(!rows.is_empty());
        let is_changed = rows.iter().any(|(_, it)| it.outcome.ends_with(", edited"));
        let run = history.entry(&history.runs()[0])?;
        assert_eq!(run.record.outcome().ends_with(", edited"), is_changed);
        Ok((format!("{rows:?}"), is_changed))
    });
}

#[test]
fn budgets() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("takt.budget.toml");
    let figures = [("bench.yield", 60), ("sweep.semaphore.length", 19)];
    let named = |all: &[(&str, u64)]| all.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
    let functions = [("semaphore".to_owned(), named(&[("give", 12), ("take", 7)]))].into();
    let budget = Budget::new("0123".into(), "rustc".into(), named(&figures), functions);
    budget.write(&path).unwrap();
    is_never_silent(&path, || {
        let mut read = Budget::read(&path, "rustc")?;
        let _ = changes::find(&read, &budget.figures, &budget.functions).text();
        let is_changed = std::mem::take(&mut read.is_edited);
        Ok((format!("{read:?}"), is_changed))
    });
}

#[test]
fn sweeps() {
    let dir = tempfile::tempdir().unwrap();
    // Any program is an image as far as this goes.
    let elf = Elf::open(Path::new("/bin/true")).unwrap();
    let what = What::Marked;
    let plan = Plan::new(SweepConfig::new(vec![what.clone()], &elf), None);
    let folder = Folder::create(dir.path(), plan, &elf.data).unwrap();
    let arrival = |position| Arrival {
        position,
        irq: 4,
        thread: 163,
        ip: 0x100_0000,
        preempt_depth: 0,
        took: 19,
    };
    let arrivals: Vec<_> = (0..20).map(arrival).collect();
    folder.put_part(&what, 0, &arrivals).unwrap();
    let part = fs::read_dir(dir.path().join("parts")).unwrap().next();
    for file in [
        part.unwrap().unwrap().path(),
        dir.path().join("sweep-plan.json"),
    ] {
        is_never_silent(&file, || {
            let folder = Folder::open(dir.path())?;
            let part = folder.part(&what, 0, 20)?;
            ensure!(part.is_some());
            Ok((format!("{part:?}"), !folder.edited().is_empty()))
        });
    }
    let result = dir.path().join(document::FILE);
    let written = document::write(&folder, &elf, &[]);
    fs::write(&result, serde_json::to_vec_pretty(&written).unwrap()).unwrap();
    is_never_silent(&result, || {
        let mut read = Document::read(&fs::read(&result)?)?;
        let _ = text::render(&read);
        read.sum = 0;
        let is_changed = !std::mem::take(&mut read.edited).is_empty();
        Ok((format!("{read:?}"), is_changed))
    });
}

/// Whoever writes a manifest means what it says, whatever that is; reading it ends, and says where it makes no sense.
#[test]
fn manifests() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("takt.app.toml");
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tasks/takt.app.toml");
    let bytes = fs::read(whole).unwrap();
    let mut random = Random(11);
    let mut refused = 0;
    for _ in 0..NR {
        fs::write(&path, random.damage(&bytes)).unwrap();
        refused += u64::from(Manifest::read(&path).is_err());
    }
    assert!((NR / 4..NR).contains(&refused), "{refused} refused");
}

/// An image may say anything: what is read of it ends without a panic.
#[test]
fn images() {
    let path = Path::new(env!("CARGO_BIN_EXE_fake-qemu"));
    let whole = fs::read(path).unwrap();
    let mut random = Random(13);
    let mut refused = 0;
    for number in 0..NR {
        let mut bytes = whole.clone();
        // Headers are in front and at the end.
        let zone = match number % 3 {
            0 => 0..64,
            1 => bytes.len() - 4096..bytes.len(),
            _ => 0..bytes.len(),
        };
        bytes[zone.start + random.below(zone.len())] ^= 1 << random.below(8);
        if number % 8 == 0 {
            bytes.truncate(random.below(bytes.len()));
        }
        let Ok(elf) = Elf::parse(path, bytes) else {
            refused += 1;
            continue;
        };
        // What takes long, some times.
        if number % 32 == 1 {
            let functions = elf.functions();
            if let Some((address, _)) = functions.get(random.below(functions.len())) {
                let _ = Names::new(&elf).place(*address);
            }
        }
    }
    assert!((NR / 10..NR).contains(&refused), "{refused} refused");
}
