//! What became of bounds when the code was changed.

use std::fmt::Write;

use anyhow::Result;
use serde::Deserialize;

use takt_guest::Elf;
use takt_guest::place::Names;

/// All changes, with names.
#[derive(Debug)]
pub struct Mutations(Vec<Mutation>);

#[derive(Debug)]
struct Mutation {
    place: String,
    longer: [usize; 2],
    /// Where a stretch begins, its bound now, and what one of its ways takes.
    below: Vec<(String, u64, u64)>,
}

/// What `takt-prove` writes of one.
#[derive(Debug, Deserialize)]
struct Found {
    at: u64,
    longer: [usize; 2],
    below: Vec<(u64, u64, u64)>,
}

impl Mutations {
    /// Gives names to what `takt-prove` has written of `elf`.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn read(json: &[u8], elf: &Elf) -> Result<Self> {
        let names = Names::new(elf);
        let place = |ip| super::place_of(&names, ip);
        let found: Vec<Found> = serde_json::from_slice(json)?;
        let named = found.into_iter().map(|it| Mutation {
            place: place(it.at),
            longer: it.longer,
            below: it
                .below
                .into_iter()
                .map(|(begin, bound, takes)| (place(begin), bound, takes))
                .collect(),
        });
        Ok(Self(named.collect()))
    }

    /// Whether no bound is below a way.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|it| it.below.is_empty())
    }

    /// What is said of them.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for it in &self.0 {
            for (begin, bound, takes) in &it.below {
                // Writing to a String does not fail.
                let _ = writeln!(
                    out,
                    "with more instructions at {} the stretch from {begin} takes {takes}, but its bound is {bound}",
                    it.place
                );
            }
        }
        let nr = |off: usize| self.0.iter().map(|it| it.longer[off]).sum::<usize>();
        let followed = if self.is_followed() {
            "; no bound is below them"
        } else {
            ""
        };
        let _ = writeln!(
            out,
            "{} changes made the longest ways of {} stretches with interrupts off longer, and of {} with preemption off{followed}",
            self.0.len(),
            nr(0),
            nr(1)
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_does_not_follow_is_said() {
        let of = |below: Vec<(String, u64, u64)>| {
            Mutations(vec![Mutation {
                place: "f (f.rs:3)".into(),
                longer: [1, 0],
                below,
            }])
        };
        assert!(of(Vec::new()).is_followed());
        let broken = of(vec![("g (g.rs:4)".into(), 7, 11)]);
        assert!(!broken.is_followed());
        let text = broken.text();
        assert!(
            text.contains("f (f.rs:3)") && text.contains("takes 11, but its bound is 7"),
            "{text}"
        );
        // Nothing that could be changed is nothing that was shown.
        assert!(!Mutations(Vec::new()).is_followed());
    }
}
