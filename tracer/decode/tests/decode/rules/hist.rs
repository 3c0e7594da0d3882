//! Histograms: what they count by, and from where.

use super::*;

/// By the keys: hits and sums.
type Sums = BTreeMap<[u64; 3], (u64, [u64; 3])>;

/// What a histogram has counted, its hits and what it dropped.
fn hist(rules: &Rules, number: usize) -> (Sums, u64, u64) {
    let at = Rules::hist_offset(number);
    let view = HistView::new(&bytes(rules)[at..at + Rules::HIST_SIZE]);
    let mut sums = BTreeMap::new();
    for entry in view.entries() {
        let (hits, sum) = sums.entry(entry.keys).or_insert((0, [0; 3]));
        *hits += entry.hits;
        for (sum, more) in sum.iter_mut().zip(entry.sums) {
            *sum = u64::wrapping_add(*sum, more);
        }
    }
    (sums, view.hits, view.drops)
}

#[test]
fn histograms_add_up() {
    let rules = rules();
    add(
        &rules,
        EVENT,
        "hist:keys=prio,comm:vals=took,d if prio != 7",
    )
    .unwrap();
    add(&rules, EVENT, "hist:keys=took.log2").unwrap();
    let mut expected = BTreeMap::new();
    let mut logs = BTreeMap::new();
    for step in 0..3000u32 {
        let (tid, prio, d) = ((step % 5) as u8, (step % 8) as u8, (step % 11) as i16 - 5);
        assert!(judge(&rules, &words(tid, prio, d, step)).is_recorded);
        *logs
            .entry([u64::from(step.next_power_of_two().ilog2()), 0, 0])
            .or_insert(0) += 1;
        if prio != 7 {
            let (hits, [took, sum, _]) = expected
                .entry([prio.into(), tid.into(), 0])
                .or_insert((0, [0u64; 3]));
            *hits += 1;
            *took += u64::from(step);
            *sum = sum.wrapping_add_signed(d.into());
        }
    }
    let (found, hits, drops) = hist(&rules, 0);
    assert_eq!(found, expected);
    assert_eq!((hits, drops), (3000 - 375, 0));
    let (found, ..) = hist(&rules, 1);
    let found: BTreeMap<_, _> = found
        .into_iter()
        .map(|(key, (hits, _))| (key, hits))
        .collect();
    // 0 and 1 are both 2^0.
    assert_eq!(found, logs);
    for _ in 2..MAX_HISTS {
        add(&rules, EVENT, "hist:keys=pid").unwrap();
    }
    assert_eq!(
        add(&rules, EVENT + 2, "hist:keys=pid"),
        Err(RuleError::Full)
    );
    // A new one begins with nothing in it.
    rules.remove_trigger(EVENT, 0).unwrap();
    add(&rules, EVENT, "hist:keys=pid").unwrap();
    assert_eq!(hist(&rules, 0), (BTreeMap::new(), 0, 0));
}

/// What finds no place is counted as dropped, and nothing else is lost.
#[test]
fn a_full_histogram_counts_what_it_drops() {
    let rules = rules();
    add(&rules, EVENT, "hist:keys=took:size=16").unwrap();
    for step in 0..100 {
        let _ = judge(&rules, &words(0, 0, 0, step));
    }
    let (found, hits, drops) = hist(&rules, 0);
    assert_eq!((found.len(), hits, drops), (16, 16, 84));
    let rules = self::rules();
    add(&rules, EVENT, "hist:keys=took").unwrap();
    for step in 0..2 * ENTRIES as u32 {
        let _ = judge(&rules, &words(0, 0, 0, step));
    }
    let (found, hits, drops) = hist(&rules, 0);
    assert_eq!(found.len() as u64, hits);
    assert_eq!(hits + drops, 2 * ENTRIES as u64);
    assert!(hits > ENTRIES as u64 * 9 / 10);
}

/// From several CPUs at once, every event is counted once.
#[test]
fn several_count_at_once() {
    const EACH: u32 = 20_000;
    let rules = rules();
    add(&rules, EVENT, "hist:keys=prio,took:vals=took").unwrap();
    add(&rules, EVENT, "traceoff:1000").unwrap();
    let acted = AtomicU32::new(0);
    thread::scope(|scope| {
        for cpu in 0..4u32 {
            let (rules, acted) = (&rules, &acted);
            scope.spawn(move || {
                for step in 0..EACH {
                    let verdict = judge(rules, &words(0, (step % 8) as u8, 0, (step + cpu) % 32));
                    if verdict.actions & Action::TraceOff.bit() != 0 {
                        acted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(acted.into_inner(), 1000);
    let (found, hits, drops) = hist(&rules, 0);
    assert_eq!((hits, drops), (4 * u64::from(EACH), 0));
    assert_eq!(found.values().map(|(hits, _)| hits).sum::<u64>(), hits);
    for ([_, took, _], (hits, [sum, ..])) in &found {
        assert_eq!(took * hits, *sum);
    }
}

#[test]
fn histograms_have_buckets_and_pause() {
    let rules = rules();
    add(&rules, EVENT, "hist:keys=took.buckets=10,prio").unwrap();
    let count = |from: u32| {
        for took in from..from + 25 {
            let _ = judge(&rules, &words(0, 3, 0, took));
        }
        let (found, hits, _) = hist(&rules, 0);
        let rows: Vec<_> = found
            .into_iter()
            .map(|(key, (hits, _))| (key, hits))
            .collect();
        (rows, hits)
    };
    let row = |bucket, hits| ([bucket, 3, 0], hits);
    assert_eq!(count(0), (vec![row(0, 10), row(1, 10), row(2, 5)], 25));
    rules.set_left(EVENT, 0, 0).unwrap();
    assert_eq!(count(0).1, 25, "it pauses");
    rules.set_left(EVENT, 0, UNLIMITED).unwrap();
    assert_eq!(count(5).0, [row(0, 15), row(1, 20), row(2, 15)]);
    assert_eq!(rules.set_left(EVENT, 1, 0), Err(RuleError::Missing));
}

/// A stack is one key however often it is met, and is there to be read.
#[test]
fn histograms_count_by_stacks() {
    let rules = rules();
    add(&rules, EVENT, "hist:keys=stacktrace,prio:vals=took").unwrap();
    let stacks: Vec<[u32; MAX_FRAMES]> = (0..40)
        .map(|number| {
            std::array::from_fn(|at| match at {
                // Of different lengths, and different in one caller only.
                at if at > number % MAX_FRAMES => 0,
                0 => 0x20_0000 + number as u32,
                at => 0x20_0000 + at as u32,
            })
        })
        .collect();
    for round in 0..3 {
        for callers in &stacks {
            CALLERS.set(*callers);
            let _ = judge(&rules, &words(0, 5, 0, round));
        }
    }
    let at = Rules::hist_offset(0);
    let view = HistView::new(&bytes(&rules)[at..at + Rules::HIST_SIZE]);
    assert_eq!((view.hits, view.drops), (120, 0));
    let mut found: Vec<Vec<u32>> = Vec::new();
    for entry in view.entries() {
        assert_eq!((entry.keys[1], entry.hits, entry.sums[0]), (5, 3, 3));
        found.push(view.callers(entry.place).collect());
    }
    found.sort_unstable();
    let mut expected: Vec<_> = stacks
        .iter()
        .map(|callers| {
            callers
                .iter()
                .copied()
                .take_while(|it| *it != 0)
                .collect::<Vec<_>>()
        })
        .collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}
