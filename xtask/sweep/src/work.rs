//! All boots of a sweep, on the host's CPUs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use anyhow::Result;
use takt_timerlat::sweep::{Arrival, EARLY};

use super::boot::Booter;
use super::config::{SweepConfig, What};
use super::parts::{Folder, Listing};
use super::path::Path;
use super::ways::Ways;
use takt_base::{paths, spread};
use takt_guest::Elf;
use takt_guest::place::Entries;
use takt_machine::qemu;
use takt_machine::run::signals::Interrupted;

/// Arrivals of one boot: enough that booting does not count, few enough that little is lost with a boot.
const PART: u32 = 4000;

/// Which of the parts are this machine's: every `of`-th, from number `index` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    pub index: u32,
    /// How many shards there are.
    pub of: u32,
}

impl Shard {
    /// Whether the part of this number is among them.
    fn has(self, number: usize) -> bool {
        number % self.of as usize == self.index as usize
    }
}

/// What a sweep consists of, once its paths are known, and what of that is there: by the names of files, of which none is read.
pub(super) struct Outline<'f> {
    folder: &'f Folder,
    parts: Vec<Part<'f>>,
}

impl<'f> Outline<'f> {
    /// `None` while a path is missing.
    ///
    /// # Errors
    ///
    /// If one that is there is damaged.
    pub(super) fn known(folder: &'f Folder, listing: &Listing) -> Result<Option<Self>> {
        let config = folder.config();
        if folder.paths_known(listing) < config.what.len() {
            return Ok(None);
        }
        let paths: Option<Vec<_>> = config
            .what
            .iter()
            .map(|what| folder.path(what))
            .collect::<Result<_>>()?;
        Ok(paths.map(|paths| Self {
            folder,
            parts: all_parts(config, &paths),
        }))
    }

    /// Arrivals of all parts.
    pub(super) fn arrivals(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.count)).sum()
    }

    /// Arrivals of those that are there.
    pub(super) fn measured(&self, listing: &Listing) -> u64 {
        let there = self
            .parts
            .iter()
            .filter(|part| self.is_there(listing, part));
        there.map(|part| u64::from(part.count)).sum()
    }

    /// How many files there are of a shard: the paths' and its parts'.
    pub(super) fn files(&self, listing: &Listing, shard: Shard) -> usize {
        let there = self.of(shard).filter(|part| self.is_there(listing, part));
        self.folder.config().what.len() + there.count()
    }

    /// Whether all parts of a shard are there.
    pub(super) fn is_done(&self, listing: &Listing, shard: Shard) -> bool {
        self.of(shard).all(|part| self.is_there(listing, part))
    }

    fn of(&self, shard: Shard) -> impl Iterator<Item = &Part<'f>> {
        let numbered = self.parts.iter().enumerate();
        numbered.filter_map(move |(number, part)| shard.has(number).then_some(part))
    }

    fn is_there(&self, listing: &Listing, part: &Part<'_>) -> bool {
        let first = position(self.folder.config(), part);
        self.folder.has_part(listing, part.what, first, part.count)
    }
}

/// How many boots at the same time: as many as the user wants, or one for each of the host's CPUs.
#[must_use]
pub fn jobs(wanted: Option<u16>) -> usize {
    wanted.map_or_else(spread::cpus, usize::from)
}

/// Who is told how far the sweep has come.
pub trait Progress: Sync {
    /// The paths are being read: so many of so many.
    fn paths(&self, done: usize, all: usize);
    /// So many arrivals are to be measured, so many are known from before.
    fn arrivals(&self, all: u64, known: u64);
    /// So many more were measured.
    fn measured(&self, more: u64);
    /// What was measured is being explained: so many stretches of so many, and the way of this number is being read
    /// off (0: none yet). How many a stretch has is not known before.
    fn ways(&self, done: usize, all: usize, number: usize);
    /// Whether the user wants out.
    fn is_over(&self) -> bool;
}

/// One stretch, measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What it is.
    pub what: What,
    /// The ways through it.
    pub ways: Ways,
    /// How many of its boundaries are to be met, if that is not all.
    pub limit: Option<u32>,
    /// Whether all arrivals were measured, and not only a shard.
    pub is_whole: bool,
    /// The arrivals: all, or none.
    pub arrivals: Vec<Arrival>,
}

/// A part that is to be measured.
#[derive(Clone, Copy)]
struct Part<'w> {
    what: &'w What,
    /// In arrivals.
    first: u32,
    count: u32,
}

/// Measures what is not known yet, and gives everything that is.
///
/// # Errors
///
/// If a guest fails, a file cannot be written, or the user wants out. What was measured until then is kept.
pub fn run(
    folder: &Folder,
    elf: &Elf,
    jobs: usize,
    shard: Shard,
    progress: &dyn Progress,
) -> Result<Vec<Measured>> {
    // Of a sweep that was killed.
    paths::remove_left_over(folder.dir());
    let config = folder.config();
    let qemu = qemu::version().unwrap_or_default();
    let is_broken = AtomicBool::new(false);
    let is_over = || is_broken.load(Relaxed) || progress.is_over();
    let booter = Booter {
        elf,
        config,
        qemu: &qemu,
        dir: folder.dir(),
        is_over: &is_over,
    };
    let nr_read = AtomicUsize::new(0);
    progress.paths(0, config.what.len());
    // Each shard begins elsewhere: what another has read meanwhile is there.
    let turn = config.what.len() * shard.index as usize / shard.of as usize;
    let mut in_turn: Vec<_> = config.what.iter().collect();
    in_turn.rotate_left(turn);
    let mut paths = each(jobs, &in_turn, &is_broken, |what| {
        let path = match folder.path(what)? {
            Some(path) => path,
            None => {
                let path = booter.path(what)?;
                folder.put_path(what, &path)?;
                path
            }
        };
        progress.paths(nr_read.fetch_add(1, Relaxed) + 1, config.what.len());
        Ok(path)
    })?;
    paths.rotate_right(turn);

    let parts = all_parts(config, &paths);
    let mut todo = Vec::new();
    let (mut all, mut known) = (0, 0);
    for (number, part) in parts.iter().enumerate() {
        let is_known = folder
            .part(part.what, position(config, part), part.count)?
            .is_some();
        let is_ours = shard.has(number);
        if is_ours || is_known {
            all += u64::from(part.count);
        }
        if is_known {
            known += u64::from(part.count);
        } else if is_ours {
            todo.push(*part);
        }
    }
    progress.arrivals(all, known);
    each(jobs, &todo, &is_broken, |part| {
        let told = AtomicUsize::new(0);
        let measured = |nr: u32| {
            let before = told.swap(nr as usize, Relaxed);
            progress.measured((nr as usize).saturating_sub(before) as u64);
        };
        let first = position(config, part);
        let results = booter.arrivals(part.what, first, part.count, &measured)?;
        measured(part.count);
        folder.put_part(part.what, first, &results.arrivals)
    })?;

    let entries = Entries::of(elf);
    let stretches: Vec<_> = config.what.iter().zip(paths).collect();
    let (nr_done, nr_ways) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let tell = || {
        progress.ways(
            nr_done.load(Relaxed),
            stretches.len(),
            nr_ways.load(Relaxed),
        )
    };
    tell();
    each(jobs, &stretches, &is_broken, |(what, path)| {
        let mut arrivals = Vec::new();
        let mut is_whole = true;
        for part in parts.iter().filter(|part| part.what == *what) {
            match folder.part(what, position(config, part), part.count)? {
                Some(known) => arrivals.extend(known),
                None => is_whole = false,
            }
        }
        let mut ways = Ways::new(path.clone());
        if !is_whole {
            // A shard: where its arrivals were taken is judged when all are put together.
            arrivals.clear();
        }
        let is_entry = |ip| entries.contain(ip);
        while let Some(met) = ways.unexplained(&arrivals, is_entry) {
            nr_ways.fetch_add(1, Relaxed);
            tell();
            let first = met.arrival.position.saturating_add_unsigned(EARLY);
            let first = first.cast_unsigned();
            let executed = match folder.way(what, first)? {
                Some(known) => known,
                None => {
                    let executed = booter.way(what, first)?;
                    folder.put_way(what, first, &executed)?;
                    executed
                }
            };
            ways.add(&met, executed, is_entry);
        }
        nr_done.fetch_add(1, Relaxed);
        tell();
        Ok(Measured {
            what: (*what).clone(),
            limit: config.limit(path.len()),
            ways,
            is_whole,
            arrivals,
        })
    })
}

fn position(config: &SweepConfig, part: &Part<'_>) -> u32 {
    part.first * config.step
}

/// The parts of all stretches, of which these are the paths.
fn all_parts<'w>(config: &'w SweepConfig, paths: &[Path]) -> Vec<Part<'w>> {
    let stretches = config.what.iter().zip(paths);
    let each = stretches.flat_map(|(what, path)| parts(what, config.arrivals(what, path.len())));
    each.collect()
}

/// Cuts the arrivals of a stretch into parts.
fn parts(what: &What, arrivals: u32) -> impl Iterator<Item = Part<'_>> {
    (0..arrivals).step_by(PART as usize).map(move |first| Part {
        what,
        first,
        count: PART.min(arrivals - first),
    })
}

/// Does something with every item, `jobs` at a time; the results in the items' order. The first error ends it.
fn each<T: Sync, R: Send>(
    jobs: usize,
    items: &[T],
    is_broken: &AtomicBool,
    act: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let results = spread::each(jobs, items, |item| {
        if is_broken.load(Relaxed) {
            return None;
        }
        match act(item) {
            // Those that end because of another's error say so too, and would hide it.
            Err(_) if is_broken.swap(true, Relaxed) => None,
            result => Some(result),
        }
    });
    let found: Vec<_> = results.into_iter().flatten().collect::<Result<_>>()?;
    if found.len() < items.len() {
        anyhow::bail!(Interrupted("interrupted"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;
    use crate::Plan;

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn parts_cover_everything_once() {
        for arrivals in [0, 1, PART - 1, PART, PART + 1, 3 * PART + 7] {
            let what = What::Marked;
            let mut next = 0;
            for part in parts(&what, arrivals) {
                assert_eq!(part.first, next);
                assert!((1..=PART).contains(&part.count));
                next += part.count;
            }
            assert_eq!(next, arrivals);
        }
    }

    /// Writes down what it is told.
    #[derive(Default)]
    struct Told(Mutex<Vec<String>>);

    impl Told {
        fn note(&self, what: String) {
            lock(&self.0).push(what);
        }
    }

    impl Progress for Told {
        fn paths(&self, done: usize, all: usize) {
            self.note(format!("paths {done}/{all}"));
        }
        fn arrivals(&self, all: u64, known: u64) {
            self.note(format!("arrivals {known}/{all}"));
        }
        fn measured(&self, more: u64) {
            self.note(format!("measured {more}"));
        }
        fn ways(&self, done: usize, all: usize, number: usize) {
            self.note(format!("ways {done}/{all}, number {number}"));
        }
        fn is_over(&self) -> bool {
            false
        }
    }

    /// A sweep of which everything is known, so that nothing boots: one of its arrivals was taken on another way.
    #[test]
    fn progress_goes_on_while_the_ways_are_read() {
        let elf = Elf::open(&std::env::current_exe().unwrap()).unwrap();
        let what = What::Marked;
        let config = SweepConfig::new(vec![what.clone()], &elf);
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::create(dir.path(), Plan::new(config.clone(), None), &[]).unwrap();
        let path = Path {
            ips: (0..10).collect(),
            tail: Vec::new(),
        };
        folder.put_path(&what, &path).unwrap();
        let count = config.arrivals(&what, path.len());
        let arrival = |number: u32| {
            let position = number.cast_signed() - EARLY.cast_signed();
            Arrival {
                position,
                irq: 4,
                thread: 4,
                ip: if position == 5 { 99 } else { position as u32 },
                preempt_depth: 0,
                took: path.len(),
            }
        };
        let arrivals: Vec<_> = (0..count).map(arrival).collect();
        folder.put_part(&what, 0, &arrivals).unwrap();
        folder.put_way(&what, 5 + EARLY, &path).unwrap();
        let told = Told::default();
        let shard = Shard { index: 0, of: 1 };
        run(&folder, &elf, 1, shard, &told).unwrap();
        assert_eq!(
            *lock(&told.0),
            [
                "paths 0/1".to_owned(),
                "paths 1/1".into(),
                format!("arrivals {count}/{count}"),
                "ways 0/1, number 0".into(),
                "ways 0/1, number 1".into(),
                "ways 1/1, number 1".into(),
            ]
        );
    }

    #[test]
    fn results_come_in_order_and_the_first_error_is_told() {
        let items: Vec<u32> = (0..50).collect();
        let is_broken = AtomicBool::new(false);
        let doubled = each(4, &items, &is_broken, |item| Ok(item * 2)).unwrap();
        assert!(doubled.iter().zip(&items).all(|(a, b)| *a == b * 2));
        let error = each(4, &items, &is_broken, |item| {
            anyhow::ensure!(*item != 7, "seven");
            Ok(())
        });
        assert_eq!(error.unwrap_err().to_string(), "seven");
        assert!(is_broken.load(Relaxed));
    }
}
