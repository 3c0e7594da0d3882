//! What the numbers in records stand for: threads, times, symbols.

use std::boxed::Box;
use std::collections::BTreeMap;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::irqs::Irqs;
use super::meta::{FieldDef, Role, Slot};
use super::record::{REST, Record, Value};
use super::switches::Switches;
use super::template::{Fill, Part, Show, Subject};
use super::text::{osnoise, stack};
use super::types::{FieldType, number};

/// Converts cycles of the TSC into nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscClock {
    hz: u64,
}

impl TscClock {
    /// A clock of that frequency; 0 counts as 1 GHz, one cycle a nanosecond.
    pub const fn new(hz: u64) -> Self {
        Self {
            hz: if hz == 0 { 1_000_000_000 } else { hz },
        }
    }

    /// Nanoseconds of so many cycles, exact and rounded down; `u64::MAX` if they are more than that (584 years).
    pub const fn ns(self, cycles: u64) -> u64 {
        let ns = cycles as u128 * 1_000_000_000 / self.hz as u128;
        if ns > u64::MAX as u128 {
            u64::MAX
        } else {
            ns as u64
        }
    }

    /// The least number of cycles that is at least so many nanoseconds, by [`ns`](Self::ns); one that no `u64` is if
    /// there is none.
    pub(crate) fn cycles_at(self, ns: i128) -> i128 {
        const NONE: i128 = u64::MAX as i128 + 1;
        if ns > u64::MAX.into() {
            return NONE;
        }
        let exact = ns.max(0) * i128::from(self.hz);
        let cycles = (exact + 999_999_999) / 1_000_000_000;
        cycles.min(NONE)
    }

    /// The cycles of a bucket of so many nanoseconds: at least one, and no more than a histogram's description has room for.
    #[must_use]
    pub fn cycles_of_bucket(self, ns: u32) -> u64 {
        let cycles = self.cycles_at(ns.into());
        u64::try_from(cycles.clamp(1, u32::MAX.into())).unwrap_or(1)
    }
}

/// The names of threads: learned from records, or told.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    nr_idle: u16,
    names: BTreeMap<u8, String>,
}

impl Threads {
    /// No names yet. Threads `0..nr_idle` are the idle threads of the CPUs of that number.
    pub const fn new(nr_idle: u16) -> Self {
        Self {
            nr_idle,
            names: BTreeMap::new(),
        }
    }

    /// Gives a thread a name.
    pub fn name(&mut self, tid: u8, comm: &str) {
        self.names.insert(tid, comm.to_string());
    }

    /// Learns from a `thread_name` record.
    fn learn(&mut self, record: &Record<'_>) {
        let Role::Name { tid, comm } = record.event.role else {
            return;
        };
        if let (Some(tid), Some(comm)) = (
            record.values.get(tid).and_then(Value::number),
            record.values.get(comm),
        ) {
            self.names.insert(tid as u8, comm.text());
        }
    }

    /// Whether it has a name.
    pub fn is_known(&self, tid: u8) -> bool {
        self.is_idle(tid) || self.names.contains_key(&tid)
    }

    /// Whether it is an idle thread.
    pub fn is_idle(&self, tid: u8) -> bool {
        u16::from(tid) < self.nr_idle
    }

    /// The name of a thread: `swapper/N` for idle threads, `<...>` if it is not known.
    pub fn comm(&self, tid: u8) -> String {
        match self.names.get(&tid) {
            _ if self.is_idle(tid) => format!("swapper/{tid}"),
            Some(name) => name.clone(),
            None => "<...>".to_string(),
        }
    }

    /// The name of a thread in the TASK column: `<idle>` for idle threads.
    pub fn task(&self, tid: u8) -> String {
        if self.is_idle(tid) {
            "<idle>".to_string()
        } else {
            self.comm(tid)
        }
    }

    /// The number of a thread as Linux counts: 0 for idle threads.
    pub fn pid(&self, tid: u8) -> u8 {
        if self.is_idle(tid) { 0 } else { tid }
    }
}

/// Everything that formatting needs besides the records.
pub struct Names {
    /// The time base.
    pub clock: TscClock,
    /// The threads.
    pub threads: Threads,
    /// The interrupts.
    pub irqs: Irqs,
    /// Whether the functions of a stack, and those of the tracer `function`, are shown with how far into them it is:
    /// ftrace's option `sym-offset`.
    pub offsets: bool,
    symbol: Option<Box<dyn Fn(u64) -> Option<String>>>,
    inlined: Option<Box<dyn Fn(u64) -> Vec<String>>>,
    /// Records of functions are shown without their callers.
    hides_parents: bool,
    /// Switches and wake-ups are shown as the tracer `sched_switch` does.
    switches: Option<Switches>,
}

impl core::fmt::Debug for Names {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Names")
            .field("clock", &self.clock)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl Names {
    /// Names for a trace with a TSC of `tsc_hz`.
    pub fn new(tsc_hz: u64, threads: Threads) -> Self {
        Self {
            clock: TscClock::new(tsc_hz),
            threads,
            irqs: Irqs::default(),
            offsets: false,
            symbol: None,
            inlined: None,
            hides_parents: false,
            switches: None,
        }
    }

    /// Learns from a record that names a thread or an interrupt.
    pub fn learn(&mut self, record: &Record<'_>) {
        self.threads.learn(record);
        self.irqs.learn(record);
    }

    /// Shows addresses as `symbol` says.
    #[must_use]
    pub fn with_symbols(mut self, symbol: impl Fn(u64) -> Option<String> + 'static) -> Self {
        self.symbol = Some(Box::new(symbol));
        self
    }

    /// Shows in stacks the functions too that `inlined` says are inlined at a call, the innermost first.
    #[must_use]
    pub fn with_inlined(mut self, inlined: impl Fn(u64) -> Vec<String> + 'static) -> Self {
        self.inlined = Some(Box::new(inlined));
        self
    }

    /// Shows switches and wake-ups as ftrace's tracer `sched_switch` does.
    #[must_use]
    pub fn with_switches(mut self, switches: Switches) -> Self {
        self.switches = Some(switches);
        self
    }

    /// The line of a switch or a wake-up, if they are shown so.
    pub(super) fn switch(&mut self, record: &Record<'_>) -> Option<String> {
        self.switches.as_mut()?.line(record, &self.threads)
    }

    /// Shows functions without their callers: ftrace's option `noprint-parent`.
    #[must_use]
    pub fn without_parents(mut self) -> Self {
        self.hides_parents = true;
        self
    }

    /// What a line says behind its time: the event's name and its message. As ftrace's tracer `function` shows it: its
    /// lines have no name of an event.
    pub fn line(&self, record: &Record<'_>) -> String {
        let message = self.message(record);
        match record.event.role {
            Role::Function | Role::FunctionContext | Role::Print => message,
            Role::Stack { callers } => stack(record, callers, self).trim_end().into(),
            Role::Osnoise => osnoise(record, self.clock).unwrap_or(message),
            _ => format!("{}: {message}", record.event.event()),
        }
    }

    /// The symbol at an address, or the address.
    pub fn symbol(&self, address: u64) -> String {
        self.symbol
            .as_ref()
            .and_then(|symbol| symbol(address))
            .unwrap_or_else(|| format!("{address:#x}"))
    }

    /// The function at an address, without how far into it; or the address.
    pub fn function(&self, address: u64) -> String {
        let symbol = self.symbol(address);
        let (name, _, behind) = parts(&symbol);
        format!("{name}{behind}")
    }

    /// The function from whose block of `size` bytes at `address` another was called. Nobody has recorded where in the
    /// block, so if [`offsets`](Self::offsets) are wanted it is a range, `+0x40..0x7f/0xc0`, up to where the function
    /// ends.
    fn caller(&self, address: u64, size: u64) -> String {
        if !self.offsets {
            return self.function(address);
        }
        let symbol = self.symbol(address);
        let (name, place, behind) = parts(&symbol);
        let (offset, len) = place.split_once('/').unwrap_or((place, ""));
        let Some(first) = number(offset.trim_start_matches('+')) else {
            return symbol;
        };
        let in_block = first.saturating_add(size.saturating_sub(1));
        let last = match number(len) {
            Some(len) => in_block.min(len.saturating_sub(1)),
            None => in_block,
        };
        let slash = if len.is_empty() { "" } else { "/" };
        format!("{name}+{first:#x}..{last:#x}{slash}{len}{behind}")
    }

    /// The function of a stack, by the address of a call in it: with how far into it if [`offsets`](Self::offsets) says
    /// so.
    pub fn frame(&self, address: u64) -> String {
        if self.offsets {
            self.symbol(address)
        } else {
            self.function(address)
        }
    }

    /// The functions that are inlined at an address of a stack, as they are shown: `NAME (inlined)`, the innermost first. They
    /// have no place of their own in the code, so there is nothing else to show of them.
    pub fn inlined(&self, address: u64) -> Vec<String> {
        let names = self.inlined.as_ref().map(|inlined| inlined(address));
        let names = names.unwrap_or_default().into_iter();
        names.map(|name| format!("{name} (inlined)")).collect()
    }

    /// What is at an address, as a field of that type shows it.
    pub fn place(&self, ty: &FieldType, address: u64) -> String {
        match ty {
            FieldType::Block { .. } => self.function(address),
            _ => self.symbol(address),
        }
    }

    /// A field's value as its type says. An array as ftrace's `__print_array` shows it, `{0x1,0x2}`, signed numbers as well,
    /// but symbols where there are addresses.
    pub fn show(&self, field: &FieldDef, value: &Value) -> String {
        if let Some(elements) = value.elements() {
            let one = |element: &u64| match field.ty {
                FieldType::Symbol => self.symbol(*element),
                FieldType::Signed => {
                    let bits = field.slot.element_bits().unwrap_or(64);
                    let bits = bits.next_power_of_two().max(8);
                    let extended = signed(field, *element).cast_unsigned();
                    format!("{:#x}", extended & (u64::MAX >> (64 - bits)))
                }
                _ => format!("{element:#x}"),
            };
            let shown: Vec<_> = elements.iter().map(one).collect();
            return format!("{{{}}}", shown.join(","));
        }
        let number = value.number().unwrap_or(0);
        match &field.ty {
            FieldType::Unsigned | FieldType::Prio | FieldType::Irq => number.to_string(),
            FieldType::Signed => signed(field, number).to_string(),
            FieldType::Hex => format!("{number:#x}"),
            FieldType::Tid => self.threads.pid(number as u8).to_string(),
            FieldType::Cycles => self.clock.ns(number).to_string(),
            FieldType::Symbol => self.symbol(number),
            FieldType::Block { .. } => self.function(field.ty.address_or_number(number)),
            FieldType::Enum(names) => FieldType::name_of(names, number)
                .map_or_else(|| number.to_string(), ToString::to_string),
            FieldType::Flags(flags) => flags.show(number),
            FieldType::Str(_) => value.text(),
        }
    }

    /// A field of a record: its value, and a mark if the rest was cut.
    fn show_of(&self, record: &Record<'_>, field: &FieldDef, value: &Value) -> String {
        let mut shown = self.show(field, value);
        if record.is_cut && field.slot.is_dynamic() {
            match field.ty {
                FieldType::Str(_) => shown.push(REST),
                _ => {
                    shown.pop();
                    shown.push_str(&format!(",{REST}}}"));
                }
            }
        }
        shown
    }

    /// A field of a record of the tracer `function`: the first is a function's entry, which is exact, any other block of
    /// code is where it was called.
    fn of_function(&self, number: usize, field: &FieldDef, value: &Value) -> String {
        match (&field.ty, value.number()) {
            (FieldType::Block { size, .. }, Some(block)) => {
                let address = field.ty.address_or_number(block);
                match number {
                    0 => self.frame(address),
                    _ => self.caller(address, *size),
                }
            }
            _ => self.show(field, value),
        }
    }

    /// A record's fields as the class's template says.
    pub fn message(&self, record: &Record<'_>) -> String {
        let is_function = matches!(record.event.role, Role::Function | Role::FunctionContext);
        if self.hides_parents
            && is_function
            && let Some((field, value)) = record.fields().next()
        {
            return self.of_function(0, field, value);
        }
        let mut out = String::new();
        for part in &record.event.print.0 {
            let (subject, show) = match part {
                Part::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Part::Hole(subject, show) => (*subject, *show),
            };
            let (tid, value) = match subject {
                Subject::Current => (record.tid, self.threads.pid(record.tid).to_string()),
                Subject::Field(number) => {
                    match (record.event.fields.get(number), record.values.get(number)) {
                        (Some(field), Some(value)) => {
                            let shown = if is_function {
                                self.of_function(number, field, value)
                            } else {
                                self.show_of(record, field, value)
                            };
                            (value.number().unwrap_or(0) as u8, shown)
                        }
                        _ => continue,
                    }
                }
            };
            match show {
                Show::Comm { width } => {
                    out.push_str(&Fill::Spaces.up(&self.threads.comm(tid), width));
                }
                Show::Name => out.push_str(self.irqs.shown(tid)),
                Show::Pid => out.push_str(&self.threads.pid(tid).to_string()),
                Show::Time => {
                    let ns = value.parse::<u64>().unwrap_or(0);
                    let (whole, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
                    out.push_str(&format!("{whole}.{rest:09}"));
                }
                Show::Value { width, fill } => out.push_str(&fill.up(&value, width)),
            }
        }
        out
    }
}

/// A symbol's name, how far into it that is (`+0x4` or `+0x4/0x20`, or nothing), and what stands behind, such as the
/// address.
fn parts(symbol: &str) -> (&str, &str, &str) {
    let Some(at) = symbol.rfind("+0x") else {
        return (symbol, "", "");
    };
    let (name, rest) = symbol.split_at(at);
    let (place, behind) = rest.split_at(rest.find(" <").unwrap_or(rest.len()));
    (name, place, behind)
}

/// A number of the width of the field, or of its elements, in two's complement.
pub(super) fn signed(field: &FieldDef, number: u64) -> i64 {
    let bits = match field.slot {
        Slot::Fixed { bits, .. } | Slot::Array { bits, .. } | Slot::Sequence { bits } => bits,
        Slot::Dynamic => 64,
    };
    (number << (64 - bits)) as i64 >> (64 - bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_become_nanoseconds_exactly() {
        assert_eq!(TscClock::new(1_000_000_000).ns(u64::MAX), u64::MAX);
        assert_eq!(
            TscClock::new(3_000_000_000).ns(u64::MAX),
            6_148_914_691_236_517_205
        );
        assert_eq!(TscClock::new(2_600_000_000).ns(13), 5);
        assert_eq!(TscClock::new(1).ns(u64::MAX), u64::MAX);
    }

    #[test]
    fn threads_have_names() {
        let mut threads = Threads::new(2);
        threads.name(7, "timerlat/0");
        threads.name(1, "never shown");
        assert_eq!(
            (
                threads.comm(1).as_str(),
                threads.task(1).as_str(),
                threads.pid(1)
            ),
            ("swapper/1", "<idle>", 0)
        );
        assert_eq!(
            (
                threads.comm(7).as_str(),
                threads.task(7).as_str(),
                threads.pid(7)
            ),
            ("timerlat/0", "timerlat/0", 7)
        );
        assert_eq!(threads.comm(8), "<...>");
    }
}
