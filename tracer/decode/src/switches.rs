//! Switches and wake-ups as ftrace's tracer `sched_switch` shows them: `10:4:S ==> 0:120:R`, `0:120:R + 10:4:S`.

use std::collections::BTreeMap;

use super::names::Threads;
use super::record::Record;

/// The letters of the states that a thread is left in.
const STATES: [char; 4] = ['R', 'S', 'T', 'X'];

/// What has to be known of threads for it, beside the record: learned from the records, or told.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    prios: BTreeMap<u8, u64>,
    states: BTreeMap<u8, char>,
}

impl Switches {
    /// With the priorities that threads have, as ftrace shows them.
    pub fn new(prios: impl IntoIterator<Item = (u8, u64)>) -> Self {
        Self {
            prios: prios.into_iter().collect(),
            states: BTreeMap::new(),
        }
    }

    /// The line of a switch or a wake-up; `None` for other events. A thread that was not seen to be left was waiting.
    pub(super) fn line(&mut self, record: &Record<'_>, threads: &Threads) -> Option<String> {
        let number = |name| record.number(name);
        let shown = |tid, prio, state| format!("{:>5}:{prio:>3}:{state}", threads.pid(tid));
        match &*record.event.name {
            "sched:sched_switch" => {
                let (prev, next) = (record.tid, number("next")? as u8);
                let (prev_prio, next_prio) = (number("prev_prio")?, number("next_prio")?);
                let state = *STATES.get(number("prev_state")? as usize)?;
                self.prios.extend([(prev, prev_prio), (next, next_prio)]);
                self.states.insert(prev, state);
                let (prev, next) = (shown(prev, prev_prio, state), shown(next, next_prio, 'R'));
                Some(format!("{prev} ==> {next}"))
            }
            "sched:sched_wakeup" => {
                let (woken, prio) = (number("tid")? as u8, number("prio")?);
                let state = self.states.insert(woken, 'R').unwrap_or('S');
                self.prios.insert(woken, prio);
                let current = self.prios.get(&record.tid).copied().unwrap_or(0);
                let (current, woken) = (shown(record.tid, current, 'R'), shown(woken, prio, state));
                Some(format!("{current}   + {woken}"))
            }
            _ => None,
        }
    }
}
