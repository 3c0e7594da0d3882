//! [`mutate`]: single changes of an image's code, each of which makes ways longer: bounds have to follow.

use std::path::Path;

use anyhow::{Context, Result};
use iced_x86::FlowControl;
use serde::Serialize;

use crate::config::Config;
use crate::explore::Off;
use crate::image::{Decoded, Image};
use crate::looked::{All, Found};
use crate::marks::Marks;
use crate::prove::{Proof, Stretch, prove_of};

/// `nop`
const NOP: u8 = 0x90;
/// Places that more roots than these come to take long to look at.
const MOST_ROOTS: usize = 4;

/// What is off in stretches whose bounds have to follow.
const KINDS: [Off; 2] = [Off::Irqs, Off::Preemption];

/// A change, and what became of the bounds.
#[derive(Debug, Serialize)]
pub struct Mutation {
    /// The instruction that was replaced by several.
    pub at: u64,
    /// Stretches whose longest way comes there: with interrupts off, and with preemption off.
    pub longer: [usize; 2],
    /// Stretches whose bound is below that way now, by where they begin: the bound, and what the way takes.
    pub below: Vec<(u64, u64, u64)>,
}

/// Changes an image so many times at random, each time from what it was: an instruction without effect, a static branch that
/// is not taken, becomes as many as it has bytes. Whatever way came there takes so many more, and is as possible as before.
///
/// # Errors
///
/// If the image cannot be analysed, or is not when it is changed.
pub fn mutate(path: &Path, nr: usize, seed: u64) -> Result<Vec<Mutation>> {
    let image = Image::open(path)?;
    let marks = Marks::new(&image, &Config::default())?;
    let before = KINDS.map(|off| prove_of(&image, &Config::default(), off, &All::default()));
    let [irqs, preemption] = before;
    let before = [irqs?, preemption?];
    let may_be = |it: &Decoded| it.branch.is_some() && image.is_compiled(image.region(it.it.ip()));
    let places = |(proof, all): &(Proof, All)| -> Vec<u64> {
        let all = image
            .all()
            .filter(|it| may_be(it))
            .map(|it| it.it.ip())
            .filter(|it| {
                let on_way = |stretch: &Stretch| passes(&image, &marks, stretch, *it) > 0;
                let region = image.region(*it);
                let roots = all.found.values().filter(|it| comes_to(it, region)).count();
                proof.stretches.iter().any(on_way) && roots <= MOST_ROOTS
            });
        all.collect()
    };
    // By turns, so that each kind has its share.
    let places = before.each_ref().map(places);
    let mut random = seed;
    let changes = (0..nr).filter_map(|turn| {
        let places = match &places[turn % KINDS.len()] {
            none if none.is_empty() => &places[0],
            some => some,
        };
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let at = *places.get((random >> 33) as usize % places.len().max(1))?;
        Some(change(&image, &marks, &before, at))
    });
    changes.collect()
}

fn comes_to(found: &Found, region: u64) -> bool {
    found.regions.contains(&region)
}

fn change(image: &Image, marks: &Marks, before: &[(Proof, All)], at: u64) -> Result<Mutation> {
    let length = image.at(at).map_or(0, |it| it.it.len());
    let bytes = image.with(at, &vec![NOP; length]);
    let changed = Image::parse(bytes.context("the code is not in the file")?)?;
    let region = image.region(at);
    let mut mutation = Mutation {
        at,
        longer: [0; 2],
        below: Vec::new(),
    };
    for (nr, (off, (before, all))) in KINDS.into_iter().zip(before).enumerate() {
        let comes = |it: &Stretch| passes(image, marks, it, at) > 0;
        if !before.stretches.iter().any(comes) {
            continue;
        }
        // The others do not come there.
        let mut known = all.clone();
        known.found.retain(|_, it| !comes_to(it, region));
        let (now, _) = prove_of(&changed, &Config::default(), off, &known)?;
        for stretch in &before.stretches {
            let Some(bound) = stretch.bound else { continue };
            let passes = passes(image, marks, stretch, at);
            // A formula's longest way may come there more often than is shown.
            let takes = bound + passes * (length as u64 - 1);
            mutation.longer[nr] += usize::from(passes > 0);
            let same = now
                .stretches
                .iter()
                .find(|it| (it.begin, it.to_thread) == (stretch.begin, stretch.to_thread));
            match same.map(|it| (it.bound, it.refused)) {
                Some((Some(bound), _)) if bound < takes => {
                    mutation.below.push((stretch.begin, bound, takes));
                }
                // It is not there any more, or has no way to its end.
                None | Some((None, None)) => mutation.below.push((stretch.begin, 0, takes)),
                Some(_) => {}
            }
        }
    }
    Ok(mutation)
}

/// How often the longest way of a stretch comes to an instruction.
fn passes(image: &Image, marks: &Marks, stretch: &Stretch, at: u64) -> u64 {
    let blocks = stretch.path.split_last().map_or(&[][..], |it| it.1);
    let comes = |block: &&u64| {
        let mut ip = **block;
        while let Some(decoded) = image.at(ip) {
            if ip == at {
                return true;
            }
            if decoded.it.flow_control() != FlowControl::Next || decoded.branch.is_some() {
                return false;
            }
            ip = decoded.it.next_ip();
            if image.leaders.contains(&ip)
                || marks.rounds(ip).is_some()
                || stretch.path.last() == Some(&ip)
            {
                return false;
            }
        }
        false
    };
    blocks.iter().filter(comes).count() as u64
}
