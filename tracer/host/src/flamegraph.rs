//! Folded stacks, which `flamegraph.pl`, inferno and speedscope draw: how many ns each thread ran on each CPU, and each
//! interrupt in it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use takt_decode::{Item, Names};

use super::Export;
use super::slices::{self, Change, Runs, Slices};

/// A stack of what runs in what, on a CPU.
type Stack = (u8, Vec<Runs>);

/// The sums; nothing is written before the end.
pub(super) struct Flamegraph<'o> {
    out: &'o mut dyn Write,
    slices: Slices,
    sums: Sums,
    lost_events: u64,
    lost_sub_buffers: u64,
}

#[derive(Debug, Default)]
struct Sums {
    /// What is open on a CPU, and since when the innermost of it has run.
    open: BTreeMap<u8, (Vec<Runs>, u64)>,
    ns: BTreeMap<Stack, u64>,
}

impl Sums {
    fn change(&mut self, cpu: u8, ns: u64, change: Change) {
        let (stack, since) = self.open.entry(cpu).or_default();
        if !stack.is_empty() {
            let ran = self.ns.entry((cpu, stack.clone())).or_default();
            // Nobody ran while the time of a damaged trace went back.
            *ran = ran.saturating_add(ns.saturating_sub(*since));
        }
        *since = ns;
        match change {
            Change::Begin(runs) => stack.push(runs),
            Change::End => drop(stack.pop()),
        }
    }
}

impl<'o> Flamegraph<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self {
            out,
            slices: Slices::default(),
            sums: Sums::default(),
            lost_events: 0,
            lost_sub_buffers: 0,
        }
    }
}

impl Export for Flamegraph<'_> {
    fn item(&mut self, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
        match item {
            Item::Record(record) => names.learn(record),
            Item::Lost {
                events,
                sub_buffers,
                ..
            } => {
                self.lost_events += events;
                self.lost_sub_buffers += sub_buffers;
            }
            Item::Damage(_) => {}
        }
        let sums = &mut self.sums;
        self.slices
            .follow(item, names, |cpu, ns, change| sums.change(cpu, ns, change));
        Ok(())
    }

    fn end(&mut self, names: &Names) -> io::Result<()> {
        let sums = &mut self.sums;
        self.slices
            .finish(|cpu, ns, change| sums.change(cpu, ns, change));
        // Two threads of one name are one line.
        let mut lines: BTreeMap<String, u64> = BTreeMap::new();
        for ((cpu, stack), ns) in &self.sums.ns {
            let mut line = format!("CPU {cpu}");
            for runs in stack {
                line.push(';');
                line.push_str(&match runs {
                    // A semicolon would be one level more.
                    Runs::Thread(tid) => names.threads.comm(*tid).replace(';', ","),
                    Runs::Irq(vector) => slices::irq_name(*vector, names).replace(';', ","),
                });
            }
            *lines.entry(line).or_default() += ns;
        }
        for (line, ns) in lines {
            writeln!(self.out, "{line} {ns}")?;
        }
        // The format has no place for it but a stack of its own.
        for (what, count) in [
            ("events", self.lost_events),
            ("sub-buffers", self.lost_sub_buffers),
        ] {
            if count != 0 {
                writeln!(self.out, "lost {what} {count}")?;
            }
        }
        Ok(())
    }
}
