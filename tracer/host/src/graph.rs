//! ftrace's `function_graph`: nested braces with durations, from the records of entries and returns.
//!
//! Durations are net. Each thread has a clock that runs while the thread has the CPU, and each CPU one for its
//! interrupts; who has the CPU is told by the records themselves, above all `sched_switch` and `irq_handler_exit`.
//!
//! Which columns there are is told by [`Columns`], the tracer's options in ftrace.

use std::collections::BTreeMap;
use std::io::{self, Write};

use takt_decode::{Item, Names, Record, Role, put_decimal, write_item};
pub use takt_guest::options::Columns;

use super::{Export, Facts};

const ENTRY: &str = "ftrace:funcgraph_entry";
const EXIT: &str = "ftrace:funcgraph_exit";

/// Marks of long durations: more than so many ns.
const MARKS: [(u64, char); 6] = [
    (1_000_000_000, '$'),
    (100_000_000, '@'),
    (10_000_000, '*'),
    (1_000_000, '#'),
    (100_000, '!'),
    (10_000, '+'),
];

/// Width of a thread's name and number where threads change.
const TASK_WIDTH: usize = 14;
/// Of a thread's name, so much stands in a line.
const COMM_WIDTH: usize = 7;

/// What stands before the text of a marker elsewhere.
const MARK: &str = "tracing_mark_write: ";

/// The two lines above the columns.
fn header(of: Columns) -> String {
    let columns = [
        (of.abstime, "      TIME         ", "       |           "),
        (of.cpu, " CPU", " |  "),
        (of.proc, "  TASK/PID       ", "   |    |        "),
        (of.duration, "  DURATION   ", "   |   |      "),
    ];
    let mut lines = ["#".to_owned(), "#".to_owned()];
    for (_, above, below) in columns.iter().filter(|(is_shown, ..)| *is_shown) {
        lines[0] += above;
        lines[1] += below;
    }
    let [above, below] = lines;
    format!("{above}               FUNCTION CALLS\n{below}               |   |   |   |\n")
}

/// On whose stack a function runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Owner {
    Thread(u8),
    /// Interrupts of a CPU.
    Irq(u8),
}

/// A function that is under way.
#[derive(Clone, Debug)]
struct Frame {
    block: u64,
    /// Its owner's clock when it began, in cycles.
    began: u64,
}

#[derive(Debug, Default)]
struct Stack {
    /// What its owner has had of the CPU, in cycles.
    clock: u64,
    /// By depth; `None` where the entry is not in the trace.
    frames: Vec<Option<Frame>>,
}

#[derive(Debug, Default)]
struct Cpu {
    /// Who has it, and since which record.
    owner: Option<(Owner, u64)>,
    /// An entry that is not written yet: should the return be next, both are one line.
    pending: Option<Pending>,
    /// The thread whose functions were written last, and whether an interrupt's were.
    shown: Option<u8>,
    is_irq_shown: bool,
    /// The thread that was left by an interrupt whose last functions have yet to return.
    left: Option<u8>,
}

#[derive(Clone, Debug)]
struct Pending {
    owner: Owner,
    depth: usize,
    block: u64,
    name: String,
    at: At,
}

/// What stands before a line: when, and which thread has the CPU.
#[derive(Clone, Debug)]
struct At {
    ns: u64,
    tid: u8,
    task: String,
}

impl At {
    fn of(record: &Record<'_>, names: &Names, columns: Columns) -> Self {
        Self {
            ns: names.clock.ns(record.ts),
            tid: record.tid,
            task: match columns.proc {
                true => short_task(names, record.tid),
                false => String::new(),
            },
        }
    }
}

/// The format, on its way to a file.
#[derive(Debug, Default)]
pub struct Graph<W> {
    /// What is written.
    pub out: W,
    /// The memory of a line.
    text: String,
    columns: Columns,
    /// Events by these names only say whose time it is.
    silent: Vec<&'static str>,
    stacks: BTreeMap<Owner, Stack>,
    cpus: BTreeMap<u8, Cpu>,
}

impl<W: Write> Graph<W> {
    /// With ftrace's columns, to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            text: String::new(),
            columns: Columns::default(),
            silent: Vec::new(),
            stacks: BTreeMap::new(),
            cpus: BTreeMap::new(),
        }
    }

    /// Shows these columns from here on.
    pub fn show(&mut self, columns: Columns) {
        self.columns = columns;
    }

    /// Events of these names are not shown.
    pub fn hide(&mut self, events: Vec<&'static str>) {
        self.silent = events;
    }

    /// Whether functions of a stack have begun and not returned.
    fn is_under_way(&self, owner: Owner) -> bool {
        self.stacks
            .get(&owner)
            .is_some_and(|stack| !stack.frames.is_empty())
    }

    /// Charges the time since the CPU's last record to whoever had it, and says who has it now.
    fn charge(&mut self, record: &Record<'_>) {
        let irq = Owner::Irq(record.cpu);
        let in_irq = self.is_under_way(irq);
        let cpu = self.cpus.entry(record.cpu).or_default();
        if let Some((owner, since)) = cpu.owner {
            self.stacks.entry(owner).or_default().clock += record.ts.saturating_sub(since);
        }
        let was_irq = cpu.owner.is_some_and(|(owner, _)| owner == irq);
        if in_irq && matches!(record.event.role, Role::Switch { .. }) {
            cpu.left = Some(record.tid);
        }
        let now = match record.event.role {
            Role::Switch { next } => {
                let next = record.values.get(next).and_then(|value| value.number());
                Owner::Thread(next.unwrap_or_default() as u8)
            }
            // What is left of an interrupt whose functions are known ends with those.
            _ if record.event.name == "irq:irq_handler_exit" && !in_irq => {
                Owner::Thread(record.tid)
            }
            _ if is_graph(record) => owner_of(record),
            _ if record.context.is_hardirq() => irq,
            _ if was_irq && in_irq && record.context.is_irqs_off() => irq,
            _ => Owner::Thread(record.tid),
        };
        cpu.owner = Some((now, record.ts));
    }

    fn entry(&mut self, record: &Record<'_>, names: &Names) -> io::Result<()> {
        let (owner, depth, block) = (owner_of(record), depth_of(record), block_of(record));
        self.flush(record.cpu)?;
        let stack = self.stacks.entry(owner).or_default();
        let began = stack.clock;
        // What was deeper never returned.
        stack.frames.resize(depth, None);
        stack.frames.push(Some(Frame { block, began }));
        if let (Owner::Irq(_), 0) = (owner, depth) {
            self.cpus.entry(record.cpu).or_default().left = None;
        }
        if !self.is_shown(owner) {
            return Ok(());
        }
        let at = At::of(record, names, self.columns);
        self.show_owner(record.cpu, owner, names, &at)?;
        self.cpus.entry(record.cpu).or_default().pending = Some(Pending {
            owner,
            depth,
            block,
            name: name_of(record, names),
            at,
        });
        Ok(())
    }

    fn exit(&mut self, record: &Record<'_>, names: &Names) -> io::Result<()> {
        let (owner, depth, block) = (owner_of(record), depth_of(record), block_of(record));
        let stack = self.stacks.entry(owner).or_default();
        let clock = stack.clock;
        let frame = stack
            .frames
            .get(depth)
            .cloned()
            .flatten()
            .filter(|frame| frame.block == block);
        stack.frames.truncate(depth);
        let duration = frame
            .as_ref()
            .map(|frame| names.clock.ns(clock.saturating_sub(frame.began)));
        let cpu = self.cpus.entry(record.cpu).or_default();
        let leaf = cpu.pending.take_if(|pending| {
            pending.owner == owner && pending.depth == depth && pending.block == block
        });
        if let Some(leaf) = leaf {
            let text = format!("{}();", leaf.name);
            self.line(record.cpu, &leaf.at, duration, depth, &text)?;
        } else if self.is_shown(owner) {
            self.flush(record.cpu)?;
            let at = At::of(record, names, self.columns);
            self.show_owner(record.cpu, owner, names, &at)?;
            let text = match frame {
                Some(_) if !self.columns.tail => "}".to_owned(),
                _ => format!("}} /* {} */", name_of(record, names)),
            };
            self.line(record.cpu, &at, duration, depth, &text)?;
        }
        // The interrupt's outermost function has returned: the thread goes on.
        if let (Owner::Irq(_), 0) = (owner, depth) {
            let cpu = self.cpus.entry(record.cpu).or_default();
            cpu.owner = Some((Owner::Thread(record.tid), record.ts));
            cpu.left = None;
        }
        Ok(())
    }

    /// Any other event is a comment, where it happened.
    fn comment(&mut self, record: &Record<'_>, names: &Names) -> io::Result<()> {
        if self.silent.contains(&record.event.name.as_str()) {
            return Ok(());
        }
        self.flush(record.cpu)?;
        let irq = Owner::Irq(record.cpu);
        let owner = match self.cpus.get(&record.cpu).and_then(|cpu| cpu.owner) {
            // The time from here on may be the thread's, the record is still the interrupt's.
            _ if record.context.is_hardirq() => irq,
            Some((owner, _)) if !matches!(record.event.role, Role::Switch { .. }) => owner,
            // The switch belongs to what is left: the interrupt's last functions or the thread.
            _ if self.is_under_way(irq) => irq,
            _ => Owner::Thread(record.tid),
        };
        let at = At::of(record, names, self.columns);
        self.show_owner(record.cpu, owner, names, &at)?;
        let depth = self
            .stacks
            .get(&owner)
            .map_or(0, |stack| stack.frames.len());
        let line = names.line(record);
        let text = match record.event.role {
            // What was written, as Linux shows it here.
            Role::Print => format!("/* {} */", line.strip_prefix(MARK).unwrap_or(&line)),
            _ => format!("/* {line} */"),
        };
        self.line(record.cpu, &at, None, depth, &text)
    }

    /// Writes the entry that waits for its return.
    fn flush(&mut self, cpu: u8) -> io::Result<()> {
        let pending = self.cpus.entry(cpu).or_default().pending.take();
        match pending {
            Some(Pending {
                depth, name, at, ..
            }) => self.line(cpu, &at, None, depth, &format!("{name}() {{")),
            None => Ok(()),
        }
    }

    /// Says whose functions follow, if they are another's than before.
    fn show_owner(&mut self, number: u8, owner: Owner, names: &Names, at: &At) -> io::Result<()> {
        let cpu = self.cpus.entry(number).or_default();
        let is_irq = matches!(owner, Owner::Irq(_));
        if cpu.is_irq_shown != is_irq && self.columns.irqs {
            cpu.is_irq_shown = is_irq;
            let arrow = if is_irq { "==========>" } else { "<==========" };
            let mut line = String::new();
            self.put_prologue(&mut line, number, at);
            writeln!(self.out, "{line}  {arrow} |")?;
        }
        let cpu = self.cpus.entry(number).or_default();
        // An interrupt's are the interrupted thread's, as far as Linux knows; also its last ones, behind a switch.
        let tid = match owner {
            Owner::Thread(tid) => tid,
            Owner::Irq(_) => cpu.left.unwrap_or(at.tid),
        };
        let before = cpu.shown.replace(tid).filter(|before| *before != tid);
        if let Some(before) = before {
            let dashes = "-".repeat(42);
            let [left, right] = [before, tid].map(|tid| task(names, tid));
            writeln!(
                self.out,
                " {dashes}\n{number:>2}) {left} => {right}\n {dashes}\n"
            )?;
        }
        Ok(())
    }

    /// Whether the functions of this stack are shown.
    fn is_shown(&self, owner: Owner) -> bool {
        self.columns.irqs || matches!(owner, Owner::Thread(_))
    }

    /// What stands before the duration.
    fn put_prologue(&self, line: &mut String, cpu: u8, at: &At) {
        if self.columns.abstime {
            let (seconds, ns) = (at.ns / 1_000_000_000, at.ns % 1_000_000_000);
            line.push_str(&format!("{seconds:>5}.{ns:09} |  "));
        }
        if self.columns.cpu {
            if cpu < 10 {
                line.push(' ');
            }
            put_decimal(line, cpu);
            line.push_str(") ");
        }
        if self.columns.proc {
            line.push_str(&at.task);
            line.push_str(" | ");
        }
    }

    fn line(
        &mut self,
        cpu: u8,
        at: &At,
        duration: Option<u64>,
        depth: usize,
        text: &str,
    ) -> io::Result<()> {
        let mut line = std::mem::take(&mut self.text);
        line.clear();
        self.put_prologue(&mut line, cpu, at);
        if self.columns.duration {
            let mark = duration.map_or(' ', mark);
            line.push(if self.columns.overhead { mark } else { ' ' });
            line.push(' ');
            let begin = line.len();
            if let Some(ns) = duration {
                line.push_str(&format!("{}.{:03} us", ns / 1_000, ns % 1_000));
            }
            while line.len() < begin + 12 {
                line.push(' ');
            }
            line.push_str("|  ");
        }
        line.extend(std::iter::repeat_n(' ', 2 * depth));
        line.push_str(text);
        line.push('\n');
        let written = self.out.write_all(line.as_bytes());
        self.text = line;
        written
    }
}

impl<W: Write> Export for Graph<W> {
    fn begin(&mut self, _: Facts) -> io::Result<()> {
        let columns = header(self.columns);
        write!(self.out, "# tracer: function_graph\n#\n{columns}")
    }

    fn item(&mut self, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
        match item {
            Item::Record(record) => {
                names.learn(record);
                self.charge(record);
                match record.event.name.as_str() {
                    ENTRY => self.entry(record, names),
                    EXIT => self.exit(record, names),
                    _ => self.comment(record, names),
                }
            }
            Item::Lost { cpu, .. } => {
                self.flush(*cpu)?;
                // Nothing is known of what was under way.
                self.stacks
                    .values_mut()
                    .for_each(|stack| stack.frames.clear());
                self.cpus.values_mut().for_each(|cpu| cpu.left = None);
                write_item(&mut self.out, item, names)
            }
            Item::Damage(_) => write_item(&mut self.out, item, names),
        }
    }

    fn end(&mut self, _: &Names) -> io::Result<()> {
        let cpus: Vec<_> = self.cpus.keys().copied().collect();
        cpus.into_iter().try_for_each(|cpu| self.flush(cpu))
    }
}

fn is_graph(record: &Record<'_>) -> bool {
    [ENTRY, EXIT].contains(&record.event.name.as_str())
}

fn owner_of(record: &Record<'_>) -> Owner {
    if record.number("irq") == Some(1) {
        Owner::Irq(record.cpu)
    } else {
        Owner::Thread(record.number("tid").unwrap_or_default() as u8)
    }
}

fn depth_of(record: &Record<'_>) -> usize {
    record.number("depth").unwrap_or_default() as usize
}

fn block_of(record: &Record<'_>) -> u64 {
    record.number("ip").unwrap_or_default()
}

fn name_of(record: &Record<'_>, names: &Names) -> String {
    record
        .fields()
        .find(|(field, _)| field.name == "ip")
        .map_or_else(String::new, |(field, value)| names.show(field, value))
}

fn mark(ns: u64) -> char {
    MARKS
        .iter()
        .find(|(more_than, _)| ns > *more_than)
        .map_or(' ', |(_, mark)| *mark)
}

/// A thread's name and number, in the middle.
fn task(names: &Names, tid: u8) -> String {
    let text = format!("{}-{}", names.threads.task(tid), names.threads.pid(tid));
    format!("{text:^TASK_WIDTH$}")
}

/// As [`task`], the name cut.
fn short_task(names: &Names, tid: u8) -> String {
    let comm: String = names.threads.task(tid).chars().take(COMM_WIDTH).collect();
    let text = format!("{comm}-{}", names.threads.pid(tid));
    format!("{text:^TASK_WIDTH$}")
}

#[cfg(test)]
mod tests;
