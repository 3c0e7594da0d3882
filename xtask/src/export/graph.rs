//! ftrace's `function_graph`: nested braces with durations, from the records of entries and returns.
//!
//! Durations are net. Each thread has a clock that runs while the thread has the CPU, and each CPU one for its
//! interrupts; who has the CPU is told by the records themselves, above all `sched_switch` and `irq_handler_exit`.
//!
//! Which columns there are is told by [`Columns`], the tracer's options in ftrace.

use std::collections::BTreeMap;
use std::io::{self, Write};

use takt_tracer::decode::{Item, Names, Record, Role};

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

/// What is shown, as ftrace's options of these names (with `funcgraph-` before them) say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the options")]
pub struct Columns {
    pub overhead: bool,
    pub cpu: bool,
    pub proc: bool,
    pub duration: bool,
    pub abstime: bool,
    pub irqs: bool,
    pub tail: bool,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            overhead: true,
            cpu: true,
            proc: false,
            duration: true,
            abstime: false,
            irqs: true,
            tail: false,
        }
    }
}

impl Columns {
    /// The two lines above the columns.
    fn header(self) -> String {
        let columns = [
            (self.abstime, "      TIME         ", "       |           "),
            (self.cpu, " CPU", " |  "),
            (self.proc, "  TASK/PID       ", "   |    |        "),
            (self.duration, "  DURATION   ", "   |   |      "),
        ];
        let mut lines = ["#".to_owned(), "#".to_owned()];
        for (_, above, below) in columns.iter().filter(|(is_shown, ..)| *is_shown) {
            lines[0] += above;
            lines[1] += below;
        }
        let [above, below] = lines;
        format!("{above}               FUNCTION CALLS\n{below}               |   |   |   |\n")
    }
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
    fn of(record: &Record<'_>, names: &Names) -> Self {
        Self {
            ns: names.clock.ns(record.ts),
            tid: record.tid,
            task: short_task(names, record.tid),
        }
    }
}

/// The format, on its way to a file.
#[derive(Debug, Default)]
pub struct Graph<W> {
    /// What is written.
    pub out: W,
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

    /// Charges the time since the CPU's last record to whoever had it, and says who has it now.
    fn charge(&mut self, record: &Record<'_>) {
        let cpu = self.cpus.entry(record.cpu).or_default();
        let irq = Owner::Irq(record.cpu);
        if let Some((owner, since)) = cpu.owner {
            self.stacks.entry(owner).or_default().clock += record.ts.saturating_sub(since);
        }
        let in_irq = self
            .stacks
            .get(&irq)
            .is_some_and(|stack| !stack.frames.is_empty());
        let was_irq = cpu.owner.is_some_and(|(owner, _)| owner == irq);
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
        if !self.is_shown(owner) {
            return Ok(());
        }
        let at = At::of(record, names);
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
            .map(|frame| names.clock.ns(clock - frame.began));
        let cpu = self.cpus.entry(record.cpu).or_default();
        let leaf = cpu.pending.take_if(|pending| {
            pending.owner == owner && pending.depth == depth && pending.block == block
        });
        if let Some(leaf) = leaf {
            let text = format!("{}();", leaf.name);
            self.line(record.cpu, &leaf.at, duration, depth, &text)?;
        } else if self.is_shown(owner) {
            self.flush(record.cpu)?;
            let at = At::of(record, names);
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
        }
        Ok(())
    }

    /// Any other event is a comment, where it happened.
    fn comment(&mut self, record: &Record<'_>, names: &Names) -> io::Result<()> {
        if self.silent.contains(&record.event.name.as_str()) {
            return Ok(());
        }
        self.flush(record.cpu)?;
        let owner = match self.cpus.get(&record.cpu).and_then(|cpu| cpu.owner) {
            // The switch belongs to the thread that is left.
            Some((owner, _)) if !matches!(record.event.role, Role::Switch { .. }) => owner,
            _ => Owner::Thread(record.tid),
        };
        let at = At::of(record, names);
        self.show_owner(record.cpu, owner, names, &at)?;
        let depth = self
            .stacks
            .get(&owner)
            .map_or(0, |stack| stack.frames.len());
        let text = format!("/* {}: {} */", record.event.event(), names.message(record));
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
            self.prologue(number, at)?;
            writeln!(self.out, "  {arrow} |")?;
        }
        // An interrupt's are the interrupted thread's, as far as Linux knows.
        let tid = match owner {
            Owner::Thread(tid) => tid,
            Owner::Irq(_) => at.tid,
        };
        let cpu = self.cpus.entry(number).or_default();
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
    fn prologue(&mut self, cpu: u8, at: &At) -> io::Result<()> {
        if self.columns.abstime {
            let (seconds, ns) = (at.ns / 1_000_000_000, at.ns % 1_000_000_000);
            write!(self.out, "{seconds:>5}.{ns:09} |  ")?;
        }
        if self.columns.cpu {
            write!(self.out, "{cpu:>2}) ")?;
        }
        if self.columns.proc {
            write!(self.out, "{} | ", at.task)?;
        }
        Ok(())
    }

    fn line(
        &mut self,
        cpu: u8,
        at: &At,
        duration: Option<u64>,
        depth: usize,
        text: &str,
    ) -> io::Result<()> {
        self.prologue(cpu, at)?;
        if self.columns.duration {
            let (mark, time) = duration.map_or((' ', String::new()), |ns| {
                (mark(ns), format!("{}.{:03} us", ns / 1_000, ns % 1_000))
            });
            let mark = if self.columns.overhead { mark } else { ' ' };
            write!(self.out, "{mark} {time:<12}|  ")?;
        }
        let indent = 2 * depth;
        writeln!(self.out, "{:indent$}{text}", "")
    }
}

impl<W: Write> Export for Graph<W> {
    fn begin(&mut self, _: Facts) -> io::Result<()> {
        let columns = self.columns.header();
        write!(self.out, "# tracer: function_graph\n#\n{columns}")
    }

    fn item(&mut self, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
        match item {
            Item::Record(record) => {
                names.threads.learn(record);
                self.charge(record);
                match record.event.name.as_str() {
                    ENTRY => self.entry(record, names),
                    EXIT => self.exit(record, names),
                    _ => self.comment(record, names),
                }
            }
            Item::Lost {
                cpu,
                events,
                sub_buffers,
                ..
            } => {
                self.flush(*cpu)?;
                // Nothing is known of what was under way.
                self.stacks
                    .values_mut()
                    .for_each(|stack| stack.frames.clear());
                writeln!(
                    self.out,
                    "CPU:{cpu} [LOST {events} EVENTS, {sub_buffers} SUB-BUFFERS]"
                )
            }
            Item::Damage(damage) => writeln!(self.out, "# damaged: {damage}"),
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
mod tests {
    use super::*;
    use takt_tracer::decode::{Context, EventTable, Threads, Value};

    /// The descriptions of the events, as an image has them.
    fn table() -> EventTable {
        let graph = "class funcgraph\nlayout core8\nfield depth 7 u\nfield irq 1 u\nfield ip 12 block(0,64)\nfield tid 8 tid\nprint {ip}\n";
        let texts = [
            (4u64, format!("event {ENTRY}\n{graph}")),
            (6, format!("event {EXIT}\n{graph}")),
            (8, "event sched:sched_switch\nclass sched_switch\nlayout core24 0x80\nfield next 8 tid\nprint next={next:pid}\n".to_owned()),
            (10, "event irq:irq_handler_entry\nclass irq_vector\nlayout core8\nfield vector 8 u\nprint vector={vector}\n".to_owned()),
            (12, "event irq:irq_handler_exit\nclass irq_vector\nlayout core8\nfield vector 8 u\nprint vector={vector}\n".to_owned()),
        ];
        let mut section = Vec::new();
        for (id, text) in texts {
            section.extend(id.to_le_bytes());
            section.extend((text.len() as u64).to_le_bytes());
            section.extend(text.as_bytes());
            section.resize(section.len().next_multiple_of(8), 0);
        }
        EventTable::parse(&section).unwrap()
    }

    /// A record: time, running thread, event, values.
    type Line<'a> = (u64, u8, &'a str, &'a [u64]);

    fn written(lines: &[Line<'_>]) -> Vec<String> {
        shown(lines, Columns::default())
    }

    fn shown(lines: &[Line<'_>], columns: Columns) -> Vec<String> {
        let table = table();
        let mut names = Names::new(1_000_000_000, Threads::new(1))
            .with_symbols(|address| Some(format!("f{}", address / 64)));
        names.threads.name(7, "seven");
        names.threads.name(8, "eight");
        let mut out = Vec::new();
        let mut graph = Graph::new(&mut out);
        graph.show(columns);
        for (ts, tid, event, values) in lines {
            let record = Record {
                cpu: 0,
                ts: *ts,
                context: Context(0xc0),
                tid: *tid,
                event: table.by_name(event).unwrap(),
                values: values.iter().map(|value| Value::Number(*value)).collect(),
            };
            graph.item(&Item::Record(record), &mut names).unwrap();
        }
        graph.end(&names).unwrap();
        String::from_utf8(out)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    const SWITCH: &str = "sched:sched_switch";

    #[test]
    fn leaves_are_one_line_and_others_have_braces() {
        let lines = written(&[
            (0, 7, ENTRY, &[0, 0, 1, 7]),
            (1_000, 7, ENTRY, &[1, 0, 2, 7]),
            (2_030, 7, EXIT, &[1, 0, 2, 7]),
            (12_398, 7, EXIT, &[0, 0, 1, 7]),
        ]);
        assert_eq!(
            lines,
            [
                " 0)               |  f1() {",
                " 0)   1.030 us    |    f2();",
                " 0) + 12.398 us   |  }",
            ]
        );
    }

    #[test]
    fn the_time_of_other_threads_is_not_charged() {
        let lines = written(&[
            (0, 7, ENTRY, &[0, 0, 1, 7]),
            (100, 7, SWITCH, &[8]),
            (500, 8, ENTRY, &[0, 0, 2, 8]),
            (9_000_000, 8, EXIT, &[0, 0, 2, 8]),
            (9_000_100, 8, SWITCH, &[7]),
            (9_000_300, 7, EXIT, &[0, 0, 1, 7]),
        ]);
        assert_eq!(lines[0], " 0)               |  f1() {");
        assert_eq!(
            lines[1],
            " 0)               |    /* sched_switch: next=8 */"
        );
        assert_eq!(lines[3], " 0)    seven-7     =>    eight-8    ");
        assert_eq!(lines[6], " 0) # 8999.500 us |  f2();");
        assert_eq!(lines.last().unwrap(), " 0)   0.300 us    |  }");
    }

    #[test]
    fn the_time_of_interrupts_is_not_charged() {
        let lines = written(&[
            (0, 7, ENTRY, &[0, 0, 1, 7]),
            (100, 7, ENTRY, &[0, 1, 5, 7]),
            (150, 7, ENTRY, &[1, 1, 6, 7]),
            (350, 7, EXIT, &[1, 1, 6, 7]),
            (1_100, 7, EXIT, &[0, 1, 5, 7]),
            (1_200, 7, EXIT, &[0, 0, 1, 7]),
        ]);
        assert_eq!(
            lines,
            [
                " 0)               |  f1() {",
                " 0)   ==========> |",
                " 0)               |  f5() {",
                " 0)   0.200 us    |    f6();",
                " 0)   1.000 us    |  }",
                " 0)   <========== |",
                " 0)   0.200 us    |  }",
            ]
        );
    }

    #[test]
    fn returns_without_an_entry_and_entries_without_a_return() {
        let lines = written(&[
            (0, 7, EXIT, &[3, 0, 1, 7]),
            (10, 7, ENTRY, &[1, 0, 2, 7]),
            (20, 7, ENTRY, &[1, 0, 3, 7]),
            (25, 7, EXIT, &[1, 0, 3, 7]),
            (30, 7, EXIT, &[0, 0, 4, 7]),
        ]);
        assert_eq!(
            lines,
            [
                " 0)               |        } /* f1 */",
                " 0)               |    f2() {",
                " 0)   0.005 us    |    f3();",
                " 0)               |  } /* f4 */",
            ]
        );
    }

    #[test]
    fn columns_are_ftraces_options() {
        let lines = [
            (0, 7, ENTRY, &[0, 0, 1, 7][..]),
            (100, 7, ENTRY, &[0, 1, 5, 7]),
            (20_100, 7, EXIT, &[0, 1, 5, 7]),
            (40_000, 7, EXIT, &[0, 0, 1, 7]),
        ];
        let all = Columns::default();
        assert_eq!(
            all.header(),
            "# CPU  DURATION                  FUNCTION CALLS\n# |     |   |                     |   |   |   |\n"
        );
        let all_on = Columns {
            proc: true,
            abstime: true,
            tail: true,
            ..all
        };
        assert_eq!(
            shown(&lines, all_on),
            [
                "    0.000000000 |   0)    seven-7     |               |  f1() {",
                "    0.000000100 |   0)    seven-7     |   ==========> |",
                "    0.000000100 |   0)    seven-7     | + 20.000 us   |  f5();",
                "    0.000040000 |   0)    seven-7     |   <========== |",
                "    0.000040000 |   0)    seven-7     | + 20.000 us   |  } /* f1 */",
            ]
        );
        let few = Columns {
            overhead: false,
            irqs: false,
            ..all
        };
        assert_eq!(
            shown(&lines, few),
            [" 0)               |  f1() {", " 0)   20.000 us   |  }"]
        );
        let none = Columns {
            cpu: false,
            duration: false,
            irqs: false,
            ..all
        };
        assert_eq!(shown(&lines, none), ["f1() {", "}"]);
        assert_eq!(
            none.header(),
            "#               FUNCTION CALLS\n#               |   |   |   |\n"
        );
    }

    #[test]
    fn marks() {
        let marks: String = [10_000, 10_001, 100_001, 1_000_001, 10_000_001]
            .map(mark)
            .iter()
            .collect();
        assert_eq!(marks, " +!#*");
    }
}
