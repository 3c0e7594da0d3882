//! What grew, by how much and in which function.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use serde_json::json;

use super::file::{Budget, Functions};
use takt_base::output;

/// Schema of what is found, as JSON.
pub const SCHEMA: &str = "takt.budget-check/1";

/// A figure that is another one than its budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// What it may be.
    pub budget: u64,
    /// What it is.
    pub now: u64,
}

impl Change {
    fn by(&self) -> i128 {
        i128::from(self.now) - i128::from(self.budget)
    }
}

/// A function that has more or fewer instructions on some path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// The function.
    pub function: String,
    /// By how much, on the path where it is most.
    pub by: i128,
    /// The paths.
    pub paths: Vec<String>,
}

/// The figures beside their budgets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Those above.
    pub grown: Vec<Change>,
    /// Those below.
    pub shrunk: Vec<Change>,
    /// Figures without a budget.
    pub unknown: Vec<String>,
    /// Budgets without a figure.
    pub missing: Vec<String>,
    /// The functions on the paths that changed, in instructions.
    pub functions: Vec<Moved>,
    /// The functions of the images' text that changed, in bytes.
    pub sizes: Vec<Moved>,
    /// How many figures there are.
    #[serde(rename = "figures")]
    pub nr: usize,
}

/// Compares what was measured with the budgets.
#[must_use]
pub fn find(
    budget: &Budget,
    figures: &BTreeMap<String, u64>,
    functions: &BTreeMap<String, Functions>,
) -> Comparison {
    let mut found = Comparison {
        nr: figures.len(),
        ..Comparison::default()
    };
    for (name, now) in figures {
        let Some(limit) = budget.figures.get(name) else {
            found.unknown.push(name.clone());
            continue;
        };
        let change = Change {
            name: name.clone(),
            budget: *limit,
            now: *now,
        };
        match now.cmp(limit) {
            std::cmp::Ordering::Greater => found.grown.push(change),
            std::cmp::Ordering::Less => found.shrunk.push(change),
            std::cmp::Ordering::Equal => {}
        }
    }
    let is_gone = |name: &&String| !figures.contains_key(*name);
    found.missing = budget.figures.keys().filter(is_gone).cloned().collect();
    found.functions = moved(&budget.functions, functions, |path| !is_text(path));
    found.sizes = moved(&budget.functions, functions, is_text);
    // First those whose code is another one: the others only have more of it on their paths.
    let is_same = |moved: &Moved| {
        let symbol = symbol(&moved.function);
        !found.sizes.iter().any(|it| it.function == symbol)
    };
    found.functions.sort_by_key(is_same);
    found
}

/// Whether functions are told in bytes there.
fn is_text(path: &str) -> bool {
    let row = path.strip_prefix("bench.").unwrap_or(path);
    row.starts_with("image-") && row.ends_with("-text")
}

/// The function whose code it is: on a path one that was inlined is told as `inlined in function`.
fn symbol(function: &str) -> &str {
    function.rsplit(" in ").next().unwrap_or(function)
}

/// What a figure counts, by its name.
fn unit(name: &str) -> &'static str {
    let row = name.strip_prefix("bench.").unwrap_or(name);
    let is_any = |begins: &[&str]| begins.iter().any(|it| row.starts_with(it));
    if is_any(&[
        "image-",
        "footprint-",
        "tracer-text",
        "event-bytes-",
        "average-bytes-",
    ]) || row.ends_with("-bytes")
    {
        "B"
    } else if row.ends_with("-rate") {
        "‰"
    } else if row.ends_with("-lines") {
        "lines"
    } else if is_any(&["lock-"]) && !is_any(&["lock-held", "lock-wait"]) {
        "x"
    } else {
        "insn"
    }
}

fn moved(
    before: &BTreeMap<String, Functions>,
    now: &BTreeMap<String, Functions>,
    is_meant: impl Fn(&str) -> bool,
) -> Vec<Moved> {
    let mut all: BTreeMap<&str, Moved> = BTreeMap::new();
    for (path, functions) in now.iter().filter(|(path, _)| is_meant(path)) {
        let Some(old) = before.get(path) else {
            continue;
        };
        let names: std::collections::BTreeSet<_> = functions.keys().chain(old.keys()).collect();
        for name in names {
            let of = |functions: &Functions| i128::from(functions.get(name).copied().unwrap_or(0));
            let by = of(functions) - of(old);
            if by == 0 {
                continue;
            }
            let moved = all.entry(name).or_insert_with(|| Moved {
                function: name.clone(),
                by,
                paths: Vec::new(),
            });
            if by.abs() > moved.by.abs() {
                moved.by = by;
            }
            moved.paths.push(path.clone());
        }
    }
    let mut all: Vec<_> = all.into_values().collect();
    all.sort_by_key(|moved| (std::cmp::Reverse(moved.by), moved.function.clone()));
    all
}

impl Comparison {
    /// Whether nothing grew.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.grown.is_empty()
    }

    /// Whether the budgets are of the same figures.
    #[must_use]
    pub fn is_of_same(&self) -> bool {
        self.unknown.is_empty() && self.missing.is_empty()
    }

    /// As JSON, with the revision that the budgets are of.
    ///
    /// # Errors
    ///
    /// What the serialiser says.
    pub fn json(&self, budget: &Budget) -> serde_json::Result<String> {
        let mut document = json!({
            "schema": SCHEMA, "revision": budget.revision, "compiler": budget.compiler,
            "is_kept": self.is_kept(), "is_of_same": self.is_of_same(), "is_edited": budget.is_edited,
        });
        if let (Some(document), serde_json::Value::Object(found)) =
            (document.as_object_mut(), serde_json::to_value(self)?)
        {
            document.extend(found);
        }
        output::json_pretty(&document)
    }

    /// The tables.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        for (what, moved) in [
            ("instructions by function", &self.functions),
            ("bytes by function", &self.sizes),
        ] {
            write_moved(out, what, moved)?;
        }
        for (what, changes) in [("grew", &self.grown), ("shrank", &self.shrunk)] {
            write_changes(out, what, changes)?;
        }
        for (what, names) in [
            ("without a budget", &self.unknown),
            ("budgets without a figure", &self.missing),
        ] {
            if !names.is_empty() {
                writeln!(out, "{what}: {}\n", names.join(", "))?;
            }
        }
        writeln!(
            out,
            "budget: {} of {} figures grew, {} shrank",
            self.grown.len(),
            self.nr,
            self.shrunk.len()
        )
    }
}

/// Figures of one unit that moved by as much as each other are one row if there are more than this.
const NR_ALIKE: usize = 3;

/// The figures that moved. What one function has more is in all that it is part of: figures that moved alike are one row, with the
/// first of them.
fn write_changes(out: &mut String, what: &str, changes: &[Change]) -> std::fmt::Result {
    if changes.is_empty() {
        return Ok(());
    }
    let mut alike: BTreeMap<(i128, &str), Vec<&Change>> = BTreeMap::new();
    for change in changes {
        let key = (change.by(), unit(&change.name));
        alike.entry(key).or_default().push(change);
    }
    let mut groups: Vec<_> = alike.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group[0].by().abs()));
    let names = changes.iter().map(|change| change.name.len());
    let width = names.max().unwrap_or(0).max(8);
    writeln!(
        out,
        "{what:width$} {:>9} {:>9} {:>7}",
        "budget", "now", "by"
    )?;
    for group in groups {
        let shown = if group.len() > NR_ALIKE {
            1
        } else {
            group.len()
        };
        for (number, change) in group[..shown].iter().enumerate() {
            let more = match group.len() - shown {
                0 => String::new(),
                more => format!("  and {more} more by as much; --json has them all"),
            };
            let more = if number == 0 { more } else { String::new() };
            writeln!(
                out,
                "{:width$} {:>9} {:>9} {:>+7}{more}",
                change.name,
                change.budget,
                change.now,
                change.by()
            )?;
        }
    }
    writeln!(out)
}

/// Rows of a table of functions.
const NR_FUNCTIONS: usize = 20;

fn write_moved(out: &mut String, what: &str, all: &[Moved]) -> std::fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "{what}")?;
    for moved in all.iter().take(NR_FUNCTIONS) {
        let paths = match moved.paths.as_slice() {
            [one] => one.clone(),
            [one, rest @ ..] => format!("{one} and {} more", rest.len()),
            [] => String::new(),
        };
        writeln!(out, "{:>+7}  {}  of {paths}", moved.by, moved.function)?;
    }
    if let Some(more) = all.len().checked_sub(NR_FUNCTIONS + 1) {
        writeln!(out, "         and {} more", more + 1)?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
        all.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect()
    }

    fn budget() -> Budget {
        Budget::new(
            "r".into(),
            "c".into(),
            named(&[("bench.a", 10), ("sweep.b.length", 20), ("image.c", 30)]),
            BTreeMap::from([
                ("b".into(), named(&[("wake", 5), ("switch", 15)])),
                ("d".into(), named(&[("wake", 7)])),
            ]),
        )
    }

    #[test]
    fn the_same_is_kept() {
        let budget = budget();
        let found = find(&budget, &budget.figures, &budget.functions);
        assert!(found.is_kept() && found.is_of_same() && found.functions.is_empty());
    }

    #[test]
    fn one_more_of_each_figure_is_caught() {
        let budget = budget();
        for name in budget.figures.keys() {
            let mut figures = budget.figures.clone();
            *figures.get_mut(name).unwrap() += 1;
            let found = find(&budget, &figures, &budget.functions);
            assert!(!found.is_kept());
            assert_eq!(found.grown.len(), 1);
            assert_eq!((&found.grown[0].name, found.grown[0].by()), (name, 1));
            let json: serde_json::Value =
                serde_json::from_str(&found.json(&budget).unwrap()).unwrap();
            assert_eq!(json["grown"][0]["name"], **name);
            assert_eq!(json["is_kept"], false);
            *figures.get_mut(name).unwrap() -= 2;
            let found = find(&budget, &figures, &budget.functions);
            assert!(found.is_kept() && found.shrunk.len() == 1);
        }
    }

    #[test]
    fn the_function_that_grew_is_named() {
        let budget = budget();
        let mut functions = budget.functions.clone();
        functions.insert(
            "b".into(),
            named(&[("wake", 6), ("switch", 15), ("new", 2)]),
        );
        functions.insert("d".into(), named(&[("wake", 8)]));
        let found = find(&budget, &budget.figures, &functions);
        let expected = [("new", 2, 1), ("wake", 1, 2)];
        let is: Vec<_> = found
            .functions
            .iter()
            .map(|it| (it.function.as_str(), it.by, it.paths.len()))
            .collect();
        assert_eq!(is, expected);
        assert!(found.text().contains(
            "instructions by function\n     +2  new  of b\n     +1  wake  of b and 1 more\n"
        ));
    }

    /// As when the stub of an interrupt has an instruction more: it is named first, and the figures are a row.
    #[test]
    fn what_was_changed_comes_first_and_what_follows_from_it_is_folded() {
        let names: Vec<_> = (0..50)
            .map(|nr| format!("sweep.{nr:02}.thread.max"))
            .collect();
        let of = |value| names.iter().map(|name| (name.clone(), value)).collect();
        let functions = |wake, stub, bytes| {
            BTreeMap::from([
                (
                    "b".into(),
                    named(&[
                        ("List::push in Queue::add", stub),
                        ("takt_irq_timer", stub),
                        ("wake", wake),
                    ]),
                ),
                (
                    "bench.image-x-text".into(),
                    named(&[("Queue::add", bytes), ("takt_irq_timer", bytes)]),
                ),
            ])
        };
        let budget = Budget::new("r".into(), "c".into(), of(200), functions(5, 10, 40));
        let found = find(&budget, &of(201), &functions(7, 11, 41));
        let text = found.text();
        let expected = "instructions by function\n     +1  List::push in Queue::add  of b\n     +1  takt_irq_timer  of b\n     +2  wake  of b\n\n\
                        bytes by function\n     +1  Queue::add  of bench.image-x-text\n     +1  takt_irq_timer  of bench.image-x-text\n\n\
                        grew                   budget       now      by\n\
                        sweep.00.thread.max       200       201      +1  and 49 more by as much; --json has them all\n\n\
                        budget: 50 of 50 figures grew, 0 shrank\n";
        assert_eq!(text, expected);
        assert_eq!(found.grown.len(), 50);
    }

    #[test]
    fn text_is_told_in_bytes() {
        let budget = |path: &str, value| {
            let functions = BTreeMap::from([(path.into(), named(&[("wake", value)]))]);
            Budget::new("r".into(), "c".into(), named(&[]), functions)
        };
        for (path, unit) in [
            ("bench.image-x-text", "bytes"),
            ("image-text", "bytes"),
            ("bench.event-text", "instructions"),
        ] {
            let budgets = [48, 64].map(|value| budget(path, value));
            let found = find(&budgets[0], &named(&[]), &budgets[1].functions);
            let expected = format!("{unit} by function\n    +16  wake  of {path}\n");
            assert!(found.text().starts_with(&expected), "{}", found.text());
        }
    }

    #[test]
    fn figures_of_another_unit_have_a_row_of_their_own() {
        let names = ["a", "b", "c", "d"].map(|it| format!("bench.event-{it}"));
        let names = names.into_iter().chain(["bench.event-bytes-a".into()]);
        let of = |value| names.clone().map(|name| (name, value)).collect();
        let budget = Budget::new("r".into(), "c".into(), of(8), BTreeMap::new());
        let text = find(&budget, &of(9), &BTreeMap::new()).text();
        assert!(text.contains("+1  and 3 more by as much"), "{text}");
        assert!(text.contains("bench.event-bytes-a "), "{text}");
    }

    #[test]
    fn other_figures_are_told() {
        let budget = budget();
        let figures = named(&[("bench.a", 10), ("new", 1)]);
        let found = find(&budget, &figures, &budget.functions);
        assert!(!found.is_of_same());
        assert_eq!(found.unknown, ["new"]);
        assert_eq!(found.missing, ["image.c", "sweep.b.length"]);
    }
}
