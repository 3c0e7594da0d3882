//! The table of bounds.

use std::fmt::{self, Write};

use super::{Growth, Off, Proof, Stretch, Way};

/// What is shown besides the bounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    /// The way that takes each bound.
    pub path: bool,
    /// What a sweep has met.
    pub witness: bool,
}

/// The table.
#[must_use]
pub fn text(proof: &Proof, shown: Shown) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write_into(&mut out, proof, shown);
    out
}

/// A stretch that took longer than its bound: both ways.
#[must_use]
pub fn refutation(it: &Stretch) -> String {
    let end = it.witness_end.as_deref().unwrap_or("?");
    let path = it.path.join("\n  ");
    format!(
        "the stretch from {} took {} instructions on `{}`, to {end}, but its bound is {}: the analysis is wrong, which goes\n  {path}",
        it.place,
        it.witness.unwrap_or_default(),
        it.workload.as_deref().unwrap_or("?"),
        it.bound.unwrap_or_default(),
    )
}

fn write_into(out: &mut String, proof: &Proof, shown: Shown) -> fmt::Result {
    let (refused, bounded): (Vec<_>, Vec<_>) =
        proof.stretches.iter().partition(|it| it.refused.is_some());
    let keys = if proof.any_keys {
        "any static key on or off"
    } else {
        "static keys off"
    };
    let cpus = match proof.cpus {
        1 => "one CPU".to_owned(),
        nr => format!("{nr} CPUs"),
    };
    write!(
        out,
        "Stretches with interrupts off, in instructions: {cpus}, {keys}"
    )?;
    for it in &proof.config {
        write!(out, ", {it}")?;
    }
    writeln!(out, "\n")?;
    hold(out, proof)?;
    head(out, shown)?;
    for it in bounded.iter().filter(|it| is_of_irqs(it)) {
        row(out, it, shown)?;
    }
    part(
        out,
        "Stretches with preemption off by a guard; interrupts come on top",
        &of(&bounded, |it| it.off == Off::Preemption),
        |out, it| row(out, it, shown),
        shown,
    )?;
    part(
        out,
        "From an interrupt's first instruction to another thread, which goes on then",
        &of(&bounded, |it| it.to_thread),
        |out, it| row(out, it, shown),
        shown,
    )?;
    let entries = of(&bounded, |it| it.is_entry && !it.to_thread);
    let ways: [(&str, WayOf); 2] = [
        ("to its return to what it came upon", |it| &it.same),
        ("to the call of its handler", |it| &it.handler),
    ];
    for (title, of) in ways {
        let of_way: Vec<_> = entries
            .iter()
            .copied()
            .filter(|it| of(it).is_some())
            .collect();
        let title = format!("From an interrupt's first instruction {title}");
        part(
            out,
            &title,
            &of_way,
            |out, it| way(out, of(it), &it.place),
            Shown::default(),
        )?;
    }
    let calls: Vec<_> = proof
        .calls
        .iter()
        .filter(|it| it.stretch.thread.is_some())
        .collect();
    let title = "From a blocking call's first instruction to the switch, whatever is off; interrupts come on top";
    part(
        out,
        title,
        &calls,
        |out, it| {
            way(
                out,
                &it.stretch.thread,
                &format!("{}: {}", it.name, it.stretch.place),
            )
        },
        Shown::default(),
    )?;
    let refused: Vec<_> = refused
        .into_iter()
        .chain(
            proof
                .calls
                .iter()
                .map(|it| &it.stretch)
                .filter(|it| it.refused.is_some()),
        )
        .collect();
    if !refused.is_empty() {
        writeln!(out, "\nNo bound is proved of these, because of\n")?;
    }
    ends(out, proof, &refused, shown)?;
    writeln!(
        out,
        "\n{} of {} stretches bounded, {} states",
        bounded.iter().filter(|it| !it.to_thread).count(),
        proof.stretches.iter().filter(|it| !it.to_thread).count(),
        proof.states
    )?;
    match &proof.ratios {
        Some(it) => writeln!(out, "{}", it.text()),
        None => Ok(()),
    }
}

fn of<'p>(all: &[&'p Stretch], is_of: impl Fn(&Stretch) -> bool) -> Vec<&'p Stretch> {
    all.iter().copied().filter(|it| is_of(it)).collect()
}

/// A part of the table with its title, if there is anything in it.
fn part<T: Copy>(
    out: &mut String,
    title: &str,
    all: &[T],
    row: impl Fn(&mut String, T) -> fmt::Result,
    shown: Shown,
) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}\n")?;
    head(out, shown)?;
    all.iter().try_for_each(|it| row(out, *it))
}

/// Some of a stretch's ways.
type WayOf = fn(&Stretch) -> &Option<Way>;

fn is_of_irqs(it: &Stretch) -> bool {
    it.off == Off::Irqs && !it.to_thread
}

fn head(out: &mut String, shown: Shown) -> fmt::Result {
    match shown.witness {
        true => writeln!(
            out,
            "{:>6} {:>8} {:>6}  begins at",
            "bound", "witness", "ratio"
        ),
        false => writeln!(out, "{:>6}  begins at", "bound"),
    }
}

/// What has no bound, what nobody comes to, and what the sources say.
fn ends(out: &mut String, proof: &Proof, refused: &[&Stretch], shown: Shown) -> fmt::Result {
    for it in refused {
        if let Some(why) = &it.refused {
            writeln!(out, "  {}\n      {}: {}", it.place, why.why.name(), why.at)?;
        }
        if let (Some(met), true) = (it.witness, shown.witness) {
            writeln!(out, "      met: {met}")?;
        }
    }
    if !proof.unreached.is_empty() {
        writeln!(
            out,
            "\nNobody comes to these on one CPU with keys as they are\n"
        )?;
    }
    for it in &proof.unreached {
        writeln!(out, "  {it}")?;
    }
    if !proof.marks.is_empty() {
        writeln!(out, "\nThe sources say\n")?;
    }
    for it in &proof.marks {
        writeln!(out, "  {}\n      {}", it.place, it.text)?;
    }
    Ok(())
}

fn row(out: &mut String, it: &Stretch, shown: Shown) -> fmt::Result {
    let bound = it.bound.map_or_else(|| "fault".into(), |it| it.to_string());
    write!(out, "{bound:>6}")?;
    if shown.witness {
        let ratio = it.ratio();
        write!(
            out,
            " {:>8} {:>6}",
            it.witness.map_or_else(String::new, |it| it.to_string()),
            ratio.map_or_else(String::new, |it| format!("{it:.2}")),
        )?;
    }
    besides(out, &it.place, [it.handlers, it.waits], &it.grows)?;
    if shown.path {
        for step in &it.path {
            writeln!(out, "           {step}")?;
        }
    }
    Ok(())
}

/// What some of the ways of a stretch take.
fn way(out: &mut String, way: &Option<Way>, place: &str) -> fmt::Result {
    let Some(way) = way else { return Ok(()) };
    write!(out, "{:>6}", way.bound)?;
    besides(out, place, [way.handlers, way.waits], &way.grows)
}

/// What a wait for a lock takes, by the formula of the kernel's locks: each of the others has it once.
fn hold(out: &mut String, proof: &Proof) -> fmt::Result {
    if proof.cpus < 2 {
        return Ok(());
    }
    let others = u64::from(proof.cpus - 1);
    match (&proof.hold, &proof.hold_refused) {
        (Some(hold), None) => {
            let [most, longest] = [others * hold.bound, hold.bound];
            writeln!(
                out,
                "A wait for a lock takes {most} at most: {others} others have it for {longest} each"
            )?;
            grows(out, &hold.grows)?;
        }
        (_, Some(why)) => writeln!(
            out,
            "How long a lock is waited for is not known, because of {}: {}",
            why.why.name(),
            why.at
        )?,
        (None, None) => writeln!(out, "No lock is taken")?,
    }
    writeln!(out)
}

/// Behind a bound: where it begins, and what comes on top.
fn besides(out: &mut String, place: &str, more: [u64; 2], growths: &[Growth]) -> fmt::Result {
    writeln!(out, "  {place}{}", on_top(more, "its handler"))?;
    grows(out, growths)
}

fn grows(out: &mut String, growths: &[Growth]) -> fmt::Result {
    growths.iter().try_for_each(|it| {
        let more = on_top([it.handlers, it.waits], "a handler");
        writeln!(
            out,
            "           + {} for each of the {}{more}",
            it.each, it.counts
        )
    })
}

/// Handlers and waits.
fn on_top([handlers, waits]: [u64; 2], one: &str) -> String {
    let handlers = match handlers {
        0 => String::new(),
        1 => format!(", and {one}"),
        nr => format!(", and {nr} handlers"),
    };
    let waits = match waits {
        0 => String::new(),
        1 => ", and a wait for a lock".to_owned(),
        nr => format!(", and {nr} waits for locks"),
    };
    handlers + &waits
}
