//! The end of a section that may have made a switch due: it is carried out there, unless something forbids it.

use super::{Kind, Lent, Section};
use crate::arch::percpu;
use crate::switch::preempt;

impl<K: Kind, L: Lent> Section<K, L> {
    /// Ends the section and switches threads if one that was woken inside is more important.
    ///
    /// Whoever keeps interrupts off around this section does not expect to be switched out: the switch then waits until
    /// they are on again.
    #[inline(always)]
    pub(crate) fn leave(self) {
        let were_enabled = self.is_from_enabled();
        self.leave_quietly();
        // An interrupt in between has taken the switch already, if it was due.
        if were_enabled && percpu::resched_now() {
            preempt();
        }
    }
}
