//! [`Turns`]: whose instructions were executed between two counts.

use std::collections::VecDeque;
use std::ops::Range;

/// Turns that are remembered. With what the loads do that is many times the longest latency; what lies further back is not
/// known.
const ROOM: usize = 1 << 18;

/// The last turns: which CPU's instructions were executed from which count on.
#[derive(Debug, Default)]
pub struct Turns {
    /// Ascending: the count before the turn's first instruction, and the CPU.
    turns: VecDeque<(u64, u32)>,
}

impl Turns {
    /// A CPU's turn begins at this count, which is not before those of the turns so far.
    pub fn begin(&mut self, at: u64, cpu: u32) {
        if self.turns.len() == ROOM {
            self.turns.pop_front();
        }
        self.turns.push_back((at, cpu));
    }

    /// How many of the instructions between two counts were not this CPU's; `None` if that lies too far back.
    #[must_use]
    pub fn others(&self, cpu: u32, counts: Range<u64>) -> Option<u64> {
        if counts.is_empty() {
            return Some(0);
        }
        let first = self.turns.partition_point(|(at, _)| *at <= counts.start);
        let first = first.checked_sub(1)?;
        let ends = self.turns.range(first + 1..).map(|(at, _)| *at);
        let turns = self.turns.range(first..).zip(ends.chain([u64::MAX]));
        let foreign = turns
            .take_while(|((from, _), _)| *from < counts.end)
            .filter(|((_, whose), _)| *whose != cpu)
            .map(|((from, _), to)| to.min(counts.end) - *from.max(&counts.start));
        Some(foreign.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_lies_too_far_back_is_not_known() {
        let mut turns = Turns::default();
        assert_eq!(turns.others(0, 0..1), None);
        for turn in 0..ROOM as u64 + 1 {
            turns.begin(10 * turn, turn as u32 % 2);
        }
        assert_eq!(turns.others(0, 9..11), None);
        assert_eq!(turns.others(0, 10..25), Some(10));
    }

    proptest! {
        /// Against a list with the CPU of each single instruction.
        #[test]
        fn each_instruction_is_one_cpus(
            lengths in prop::collection::vec((0u64..9, 0u32..3), 1..30),
            cpu in 0u32..3, from in 0u64..100, len in 0u64..100,
        ) {
            let mut turns = Turns::default();
            let mut whose = Vec::new();
            for (len, cpu) in lengths {
                turns.begin(whose.len() as u64, cpu);
                whose.extend((0..len).map(|_| cpu));
            }
            let last = turns.turns.back().unwrap().1;
            whose.resize(300, last);
            let expected = whose[from as usize..(from + len) as usize].iter().filter(|it| **it != cpu).count();
            prop_assert_eq!(turns.others(cpu, from..from + len), Some(expected as u64));
        }
    }
}
