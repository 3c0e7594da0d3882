//! Who runs on each CPU, from the records: threads one after the other, and in them interrupts.

use std::collections::BTreeMap;

use takt_decode::{Item, Names, Record};

const SWITCH: &str = "sched:sched_switch";
const IRQ_ENTRY: &str = "irq:irq_handler_entry";
const IRQ_EXIT: &str = "irq:irq_handler_exit";

/// What runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Runs {
    /// A thread, by its id.
    Thread(u8),
    /// An interrupt's handler, by its vector.
    Irq(u64),
}

/// What a slice of an interrupt's handler is called.
pub(super) fn irq_name(vector: u64, names: &Names) -> String {
    let name = u8::try_from(vector).ok().and_then(|it| names.irqs.name(it));
    name.map_or_else(|| format!("irq {vector}"), str::to_owned)
}

/// Something that an item says about who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It runs from here on, inside what ran before.
    Begin(Runs),
    /// What began last and has not ended ends here.
    End,
}

/// What is open on a CPU.
#[derive(Debug, Default)]
struct Cpu {
    open: Vec<Runs>,
    last_ns: u64,
}

/// The slices of a trace while it is read.
#[derive(Debug, Default)]
pub(super) struct Slices {
    cpus: BTreeMap<u8, Cpu>,
}

impl Slices {
    /// Tells `note` of each change, with its time in ns. Who ran before the first record and across a loss is not known,
    /// and no slice says so.
    pub(super) fn follow(
        &mut self,
        item: &Item<'_>,
        names: &Names,
        mut note: impl FnMut(u8, u64, Change),
    ) {
        match item {
            Item::Record(record) => {
                let ns = names.clock.ns(record.ts);
                let cpu = self.cpus.entry(record.cpu).or_default();
                cpu.last_ns = ns;
                cpu.record(record, |change| note(record.cpu, ns, change));
            }
            Item::Lost { cpu: number, .. } => {
                let cpu = self.cpus.entry(*number).or_default();
                let last_ns = cpu.last_ns;
                cpu.end(0, |change| note(*number, last_ns, change));
            }
            Item::Damage(_) => {}
        }
    }

    /// Ends what is open at the trace's end.
    pub(super) fn finish(&mut self, mut note: impl FnMut(u8, u64, Change)) {
        for (number, cpu) in &mut self.cpus {
            let last_ns = cpu.last_ns;
            cpu.end(0, |change| note(*number, last_ns, change));
        }
    }
}

impl Cpu {
    fn record(&mut self, record: &Record<'_>, mut note: impl FnMut(Change)) {
        if self.open.is_empty() {
            self.begin(Runs::Thread(record.tid), &mut note);
        }
        match record.event.name.as_str() {
            SWITCH => {
                self.end(0, &mut note);
                let next = record.number("next").unwrap_or(0) as u8;
                self.begin(Runs::Thread(next), note);
            }
            IRQ_ENTRY => self.begin(Runs::Irq(record.number("vector").unwrap_or(0)), note),
            IRQ_EXIT => self.end(1, note),
            _ => {}
        }
    }

    fn begin(&mut self, runs: Runs, mut note: impl FnMut(Change)) {
        self.open.push(runs);
        note(Change::Begin(runs));
    }

    /// Ends slices until `depth` are open.
    fn end(&mut self, depth: usize, mut note: impl FnMut(Change)) {
        while self.open.len() > depth {
            self.open.pop();
            note(Change::End);
        }
    }
}

/// Whether the changes of a record say all that there is in it.
pub(super) fn is_change(record: &Record<'_>) -> bool {
    [SWITCH, IRQ_ENTRY, IRQ_EXIT].contains(&record.event.name.as_str())
}
