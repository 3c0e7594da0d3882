//! What is done to each activation. Host and target make the same list.

/// One activation: what stands in its way. Lengths are rounds of a loop of two instructions; 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// A section with interrupts off, inside the next one if there is one.
    pub(crate) irqs_off: u32,
    /// In that section another interrupt becomes pending.
    pub(crate) has_irq: bool,
    /// A section with preemption off.
    pub(crate) preempt_off: u32,
    /// A more important thread runs: it is woken at the end of the section with preemption off, or before the deadline.
    pub(crate) more_important: u32,
    /// A less important thread runs that has inherited a higher priority.
    pub(crate) inherited: u32,
    /// The deadline lies so many instructions behind the beginning, about.
    pub(crate) offset: u32,
}

impl Case {
    /// Rounds for which the other CPU holds the lock: so many that the deadline comes before their end.
    pub(crate) fn held(&self) -> u32 {
        300 + self.offset % 300
    }

    /// Whether that is the kernel's own lock, which is held for a section at a time.
    pub(crate) fn is_kernels(&self) -> bool {
        self.offset.is_multiple_of(2)
    }
}

/// Rounds at least, so that the deadline is sure to fall into what is planted.
const LEAST: u64 = 150;

/// The first so many cases.
pub(crate) fn cases(nr: u32) -> impl Iterator<Item = Case> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    (0..nr).map(move |_| {
        let mut next = |below: u64| {
            // xorshift64 (G. Marsaglia 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) % below
        };
        let mut rounds = || (LEAST + next(2000)) as u32;
        let (a, b, c) = (rounds(), rounds(), rounds());
        let mut case = Case {
            irqs_off: 0,
            has_irq: next(2) == 0,
            preempt_off: 0,
            more_important: 0,
            inherited: 0,
            offset: 0,
        };
        match next(7) {
            0 => case.irqs_off = a,
            1 => case.preempt_off = b,
            2 => (case.irqs_off, case.preempt_off) = (a, b),
            3 => (case.preempt_off, case.more_important) = (b, c),
            4 => (case.irqs_off, case.preempt_off, case.more_important) = (a, b, c),
            5 => case.more_important = c,
            _ => case.inherited = c,
        }
        case.has_irq &= case.irqs_off > 0;
        let first = [
            case.irqs_off,
            case.preempt_off,
            case.more_important,
            case.inherited,
        ];
        let first = first.into_iter().find(|rounds| *rounds > 0).unwrap_or(1);
        // Neither its first instructions, which are not known to the one, nor its last.
        case.offset = 100 + next(u64::from(2 * first - 200)) as u32;
        case
    })
}
