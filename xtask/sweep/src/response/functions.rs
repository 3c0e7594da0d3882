//! [`prove_functions`]: what turns and handlers take of which the manifest names the function only.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{CONFIG, Set};
use crate::prove::{Stretch, Whole, wholes};

/// Proves what they take, from the functions' first instructions to their returns.
///
/// # Errors
///
/// If one has no bound: it says where, and that the manifest has to say it then.
pub fn prove_functions(set: &mut Set, image: &Path) -> Result<()> {
    let threads = set.threads.iter().filter_map(|it| it.function.as_deref());
    let handlers = set
        .interrupts
        .iter()
        .filter_map(|it| it.function.as_deref());
    let mut names: Vec<_> = threads.chain(handlers).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    let words: Vec<_> = names.iter().map(|it| &**it).collect();
    let found = wholes(image, &[CONFIG.to_owned()], &words)
        .context("a `function` of a [[timing]] is none of the image's: a task's needs `wcet_ns`")?;
    fill(set, &found)
}

fn fill(set: &mut Set, found: &[Whole]) -> Result<()> {
    let threads = set
        .threads
        .iter_mut()
        .map(|it| (&it.function, &mut it.wcet));
    let handlers = set
        .interrupts
        .iter_mut()
        .map(|it| (&it.function, &mut it.wcet));
    for (function, wcet) in threads.chain(handlers) {
        let Some(function) = function else { continue };
        for it in found.iter().filter(|it| it.name == *function) {
            let takes = bound(&it.stretch).with_context(|| {
                format!("no bound is proved of `{function}`: say what it takes by `wcet_ns`")
            })?;
            *wcet = takes.max(*wcet);
        }
    }
    Ok(())
}

/// What it takes to its return.
fn bound(it: &Stretch) -> Result<u64> {
    if let Some(why) = &it.refused {
        bail!("{}: {}", why.why.name(), why.at);
    }
    if let Some(it) = it.grows.first() {
        bail!("it goes round for each of the {}", it.counts);
    }
    if it.handlers > 0 {
        bail!("it calls a function that is not known");
    }
    if it.thread.is_some() {
        bail!("it waits, or lets another thread go on");
    }
    it.bound.context("it does not return")
}

#[cfg(test)]
mod tests {
    use super::super::tests::thread;
    use super::*;
    use crate::prove::tests::stretch;
    use crate::prove::{Growth, Refused, Way, Why};

    fn set() -> Set {
        let mut named = thread(9, 1000, 0);
        named.function = Some("my::turn".into());
        Set {
            threads: vec![named, thread(5, 2000, 300)],
            interrupts: Vec::new(),
        }
    }

    fn of(stretch: Stretch) -> Result<Set> {
        let mut set = set();
        let name = "my::turn".to_owned();
        fill(&mut set, &[Whole { name, stretch }]).map(|()| set)
    }

    #[test]
    fn a_turn_takes_what_its_function_does() {
        let set = of(stretch("my::turn", Some(70), None)).unwrap();
        assert_eq!((set.threads[0].wcet, set.threads[1].wcet), (70, 300));
    }

    #[test]
    fn a_function_without_a_bound_is_refused_with_the_place() {
        let plain = || stretch("my::turn", Some(70), None);
        let way = Some(Way {
            bound: 50,
            handlers: 0,
            waits: 0,
            grows: Vec::new(),
        });
        let growth = Growth {
            counts: "turns".into(),
            each: 3,
            handlers: 0,
            waits: 0,
        };
        let refused = Some(Refused {
            why: Why::Loop,
            at: "g (g.rs:2)".into(),
        });
        for (it, part) in [
            (
                Stretch { refused, ..plain() },
                "a loop without a bound: g (g.rs:2)",
            ),
            (
                Stretch {
                    grows: vec![growth],
                    ..plain()
                },
                "for each of the turns",
            ),
            (
                Stretch {
                    handlers: 1,
                    ..plain()
                },
                "not known",
            ),
            (
                Stretch {
                    thread: way,
                    ..plain()
                },
                "it waits",
            ),
            (
                Stretch {
                    bound: None,
                    ..plain()
                },
                "does not return",
            ),
        ] {
            let error = format!("{:#}", of(it).unwrap_err());
            assert!(error.contains(part) && error.contains("wcet_ns"), "{error}");
        }
    }
}
