//! From where a thread goes on to its reading of the clock, and from where preemption is enabled with a switch due to that.

use iced_x86::{FlowControl, Mnemonic};

use super::{ANY_STACK, Explorer};
use crate::image::Image;
use crate::marks::Marks;
use crate::state::{Interrupts, State};

/// Where a function goes on behind a switch that it has carried out: its jumps to the next thread, and what follows each.
pub(crate) fn behind_switches(image: &Image, marks: &Marks, function: u64) -> Vec<u64> {
    let all = image.all().map(|it| &it.it);
    let jumps = all.filter(|it| image.region(it.ip()) == function);
    let left = jumps.filter(|it| marks.resumes(it.ip()).is_some());
    left.map(|it| it.next_ip())
        .filter(|it| marks.is_behind_switch(*it))
        .collect()
}

/// Where code goes on that has enabled preemption with a switch due: the branch behind each instruction that does so.
pub(crate) fn behind_guards(image: &Image, marks: &Marks) -> Vec<u64> {
    let all = image.all().map(|it| &it.it);
    let last = all.filter(|it| marks.preemption(it.ip()) == Some(false));
    let branches = last.filter_map(|it| image.at(it.next_ip()));
    let taken = branches.filter(|it| it.it.flow_control() == FlowControl::ConditionalBranch);
    taken.map(|it| it.it.near_branch_target()).collect()
}

impl Explorer<'_> {
    /// Begins where a thread has enabled preemption, with interrupts on: else it would not switch. It comes to where they are off.
    pub(crate) fn begin_behind_guard(&mut self, at: u64) {
        self.to_cli = true;
        self.begin_in(at, at, true);
    }

    fn begin_in(&mut self, place: u64, at: u64, irqs: bool) {
        let state = self.unknown(at, Interrupts::Off, ANY_STACK);
        let state = self.state(State {
            irqs: Some(Some(irqs)),
            guards: Some(0),
            ..state
        });
        self.start(place, state);
    }

    /// Begins with the first instruction of a thread that goes on, which loads its stack pointer. It comes to its function's clock, or
    /// back.
    pub(crate) fn begin_behind_switch(&mut self, at: u64) {
        let Some(first) = self.image.at(at) else {
            return;
        };
        self.clock = Some(self.image.region(at));
        self.begin_in(at, first.it.next_ip(), false);
    }

    /// Whether an instruction reads the clock that is waited for.
    pub(super) fn is_clock(&self, ip: u64, mnemonic: Mnemonic) -> bool {
        mnemonic == Mnemonic::Rdtsc && self.clock == Some(self.image.region(ip))
    }
}
