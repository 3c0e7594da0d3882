use super::*;
use crate::stats::LEVEL;
use takt_timerlat::stats::ExactHistogram;

fn near(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() < 1e-12,
        "{found} instead of {expected}"
    );
}

#[test]
fn small_groups_by_hand() {
    // Of the 70 ways only this one and its mirror image divide them so.
    let found = test(&[vec![1.0, 2.0, 3.0, 4.0, 11.0, 12.0, 13.0, 14.0]], 4);
    assert!(found.is_complete && found.ways == 70);
    near(found.p[0], 2.0 / 70.0);
    // Groups of different sizes have no mirror image.
    near(test(&[vec![9.0, 1.0, 2.0, 3.0]], 1).p[0], 0.25);
    near(test(&[vec![1.0, 2.0, 3.0, 9.0]], 3).p[0], 0.25);
    // What never changes shows nothing, nor does it change what others show.
    let found = test(
        &[
            vec![0.1; 8],
            vec![1.0, 2.0, 3.0, 4.0, 11.0, 12.0, 13.0, 14.0],
        ],
        4,
    );
    near(found.p[0], 1.0);
    near(found.p[1], 2.0 / 70.0);
    assert!(test(&[], 4).p.is_empty());
}

#[test]
fn every_group_comes_once() {
    let mut all = std::collections::BTreeSet::new();
    every_group(9, 4, &mut |group| {
        assert!(group.is_sorted() && all.insert(group.to_vec()));
    });
    assert_eq!(all.len() as u64, ways(9, 4).unwrap());
    assert_eq!(ways(20, 10), Some(184_756));
    assert_eq!(ways(200, 100), None);
}

#[test]
fn what_is_drawn_is_near_what_is_counted() {
    // 11 against 11 have 705,432 ways. A shift of the 5 % quantile of the normal distribution, near enough.
    let value = |run: usize| ((run * 7) % 22) as f64 + if run >= 11 { 4.0 } else { 0.0 };
    let metric = scaled(&(0..22).map(value).collect::<Vec<_>>());
    let found = test(std::slice::from_ref(&metric), 11);
    assert!(!found.is_complete && found.ways == NR_DRAWN + 1);
    assert_eq!(found, test(std::slice::from_ref(&metric), 11));
    let observed = statistic(&metric, 0..11);
    let (mut reached, mut all) = (0u64, 0u64);
    every_group(22, 11, &mut |group| {
        all += 1;
        reached += u64::from(statistic(&metric, group.iter().copied()) >= observed - EQUAL);
    });
    let exact = reached as f64 / all as f64;
    assert!(
        (found.p[0] - exact).abs() < 0.005,
        "{} instead of {exact}",
        found.p[0]
    );
}

/// Normal deviates from [`Random`], by Box and Muller.
fn normal(random: &mut Random) -> f64 {
    let mut uniform = || (random.next() >> 11) as f64 / (1u64 << 53) as f64;
    let (u, v) = (uniform(), uniform());
    (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// A run as a busy host makes it: an offset of its own of some 2 %, and latencies that hang on those before (first order,
/// 0.95), with a tail that is longer upwards.
fn simulated_run(random: &mut Random, shift: f64) -> ExactHistogram {
    let offset = 0.02 * normal(random) + shift;
    let mut noise = normal(random);
    let mut all = ExactHistogram::new();
    for _ in 0..400 {
        noise = 0.95 * noise + (1.0f64 - 0.95 * 0.95).sqrt() * normal(random);
        all.record((5_000.0 * (offset + 0.05 * noise).exp()) as u64);
    }
    all
}

/// The metrics of groups of runs, as `history compare` takes them.
fn metrics(runs: &[ExactHistogram]) -> Vec<Vec<f64>> {
    let figures: [fn(&ExactHistogram) -> Option<u64>; 3] = [
        |it| it.percentile(500),
        |it| it.percentile(990),
        |it| it.max(),
    ];
    let of = |figure: fn(&ExactHistogram) -> Option<u64>| {
        let value = |run| (figure(run).unwrap() as f64).ln();
        runs.iter().map(value).collect()
    };
    figures.map(of).into()
}

/// How often a difference is shown in this many comparisons of groups of these sizes.
fn shown(times: u32, sizes: (usize, usize), shift: f64) -> f64 {
    let mut random = Random(42);
    let mut nr_shown = 0;
    for _ in 0..times {
        let mut run =
            |at: usize| simulated_run(&mut random, if at < sizes.0 { 0.0 } else { shift });
        let runs: Vec<_> = (0..sizes.0 + sizes.1).map(&mut run).collect();
        let found = test(&metrics(&runs), sizes.0);
        nr_shown += u32::from(found.p.iter().any(|&p| p <= LEVEL));
    }
    f64::from(nr_shown) / f64::from(times)
}

#[test]
fn runs_of_one_system_differ_no_more_often_than_the_level() {
    for sizes in [(4, 4), (5, 5), (4, 6)] {
        let rate = shown(800, sizes, 0.0);
        // At most the level; 0.02 is more than two standard deviations of what 800 comparisons show.
        assert!(
            (0.005..LEVEL + 0.02).contains(&rate),
            "{sizes:?}: a difference is shown in {rate} of the comparisons"
        );
    }
}

#[test]
fn a_shift_of_four_times_what_runs_vary_by_is_found() {
    let rate = shown(200, (5, 5), 0.08);
    assert!(rate > 0.9, "found in {rate} of the comparisons only");
}

/// Why samples are no observations: by the textbook both of these are as good as certain not to be of one system.
#[test]
fn samples_of_one_system_are_as_far_apart_as_no_chance_would_have_them() {
    let mut random = Random(42);
    let mut nr_far = 0;
    for _ in 0..200 {
        let (a, b) = (
            simulated_run(&mut random, 0.0),
            simulated_run(&mut random, 0.0),
        );
        let d = crate::stats::distance(&a, &b).kolmogorov_smirnov_d;
        // The critical value for two times 400 independent samples at 1 %.
        nr_far += u32::from(d > 1.628 * (2.0f64 / 400.0).sqrt());
    }
    assert!(nr_far > 100, "{nr_far} of 200");
}
