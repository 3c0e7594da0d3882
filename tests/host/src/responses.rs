//! Response times that the kernel itself takes in many phasings, under icount, against their bounds.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use super::Stage;
use takt_image::Recipe;
use takt_sweep::prove::prove_image;
use takt_sweep::response::{CONFIG, Costs, Set, Thread, responses};

/// The words of a line of the image `responses`: `set 0 priority 70 …`.
fn numbers(line: &str) -> Option<BTreeMap<&str, u64>> {
    let words: Vec<&str> = line.get(line.find("set ")?..)?.split_whitespace().collect();
    let pairs = words
        .chunks_exact(2)
        .map_while(|pair| Some((pair[0], pair[1].parse().ok()?)));
    Some(pairs.collect())
}

pub(super) fn are_below_their_bounds(stage: &Stage) -> Result<()> {
    let recipe = Recipe {
        package: "takt-tests".into(),
        kind: "--bin",
        name: "responses".into(),
        ..Recipe::takt(0)
    };
    let image = recipe.build()?.path;
    let costs = Costs::of(&prove_image(&image, false, &[CONFIG.to_owned()])?)?;
    let (path, dir) = (image.display().to_string(), stage.dir("responses"));
    let words = ["run", "--image", &path, "-e", "none", "-o", &dir, "--force"];
    let done = stage.xtask(&words)?.code(0)?;

    let mut sets: BTreeMap<u64, (Set, Vec<u64>)> = BTreeMap::new();
    for of in done.stdout.lines().filter_map(numbers) {
        let word = |name: &str| of.get(name).copied().with_context(|| format!("no {name}"));
        let (set, worst) = sets.entry(word("set")?).or_default();
        set.threads.push(Thread {
            name: String::new(),
            priority: word("priority")?.try_into()?,
            period: word("period")?,
            deadline: word("period")?,
            wcet: word("wcet")?,
            blocking: word("blocking")?,
            function: None,
        });
        worst.push(word("worst")?);
    }
    ensure!(sets.len() == 2, "{} sets:\n{}", sets.len(), done.stdout);
    for (set, seen) in sets.values() {
        ensure!(seen.len() == 3, "{set:?}");
        for (of, seen) in responses(set, costs).iter().zip(seen) {
            let bound = of.worst.context("no bound")?;
            // Nor is it a bound of nothing in particular.
            ensure!(
                (*seen..=4 * seen).contains(&bound),
                "a response of {seen}, whose bound is {bound}: {of:?}"
            );
        }
    }
    Ok(())
}
