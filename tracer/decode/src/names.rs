//! What the numbers in records stand for: threads, times, symbols.

use super::irqs::Irqs;
use super::meta::{FieldDef, Role, Slot};
use super::put;
use super::record::{REST, Record, Value, put_text};
use super::switches::Switches;
use super::symbols::Symbols;
use super::template::{Fill, Part, Show, Subject};
use super::text::{osnoise, put_stack};
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
        const SECOND: u64 = 1_000_000_000;
        if self.hz == SECOND {
            return cycles;
        }
        // Whole seconds and the rest, since dividing 128 bits takes several times as long.
        let (seconds, rest) = (cycles / self.hz, cycles % self.hz);
        let rest = match rest.checked_mul(SECOND) {
            Some(rest) => rest / self.hz,
            None => (rest as u128 * SECOND as u128 / self.hz as u128) as u64,
        };
        seconds.saturating_mul(SECOND).saturating_add(rest)
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
    /// By id; those of idle threads are there from the beginning.
    names: Vec<Option<String>>,
}

impl Threads {
    /// No names yet. Threads `0..nr_idle` are the idle threads of the CPUs of that number.
    pub fn new(nr_idle: u16) -> Self {
        let idle = |cpu| Some(format!("swapper/{cpu}"));
        Self {
            nr_idle,
            names: (0..nr_idle).map(idle).collect(),
        }
    }

    /// Gives a thread a name, unless it is an idle thread.
    pub fn name(&mut self, tid: u8, comm: &str) {
        if self.is_idle(tid) {
            return;
        }
        let place = usize::from(tid);
        if self.names.len() <= place {
            self.names.resize(place + 1, None);
        }
        self.names[place] = Some(comm.to_owned());
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
            self.name(tid as u8, &comm.text());
        }
    }

    fn known(&self, tid: u8) -> Option<&str> {
        self.names.get(usize::from(tid))?.as_deref()
    }

    /// Whether it has a name.
    pub fn is_known(&self, tid: u8) -> bool {
        self.known(tid).is_some()
    }

    /// Whether it is an idle thread.
    pub fn is_idle(&self, tid: u8) -> bool {
        u16::from(tid) < self.nr_idle
    }

    /// The name of a thread: `swapper/N` for idle threads, `<...>` if it is not known.
    pub fn comm(&self, tid: u8) -> &str {
        self.known(tid).unwrap_or("<...>")
    }

    /// The name of a thread in the TASK column: `<idle>` for idle threads.
    pub fn task(&self, tid: u8) -> &str {
        if self.is_idle(tid) {
            "<idle>"
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
    symbols: Symbols,
    inlined: Option<Box<dyn Fn(u64) -> Vec<String>>>,
    /// Records of functions are shown without their callers.
    hides_parents: bool,
    /// Switches and wake-ups are shown as the tracer `sched_switch` does.
    switches: Option<Switches>,
    /// The memory of a line.
    pub(super) line: String,
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
            symbols: Symbols::default(),
            inlined: None,
            hides_parents: false,
            switches: None,
            line: String::new(),
        }
    }

    /// Learns from a record that names a thread or an interrupt.
    pub fn learn(&mut self, record: &Record<'_>) {
        self.threads.learn(record);
        self.irqs.learn(record);
    }

    /// Shows addresses as `symbol` says, which says the same each time.
    #[must_use]
    pub fn with_symbols(mut self, symbol: impl Fn(u64) -> Option<String> + 'static) -> Self {
        self.symbols = Symbols::new(symbol);
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
        put::alone(|out| self.put_line(out, record))
    }

    /// Puts the [`line`](Self::line) behind `out`.
    pub fn put_line(&self, out: &mut String, record: &Record<'_>) {
        match record.event.role {
            Role::Function | Role::FunctionContext | Role::Print => self.put_message(out, record),
            Role::Stack { callers } => {
                put_stack(out, record, callers, self);
                out.truncate(out.trim_end().len());
            }
            Role::Osnoise => match osnoise(record, self.clock) {
                Some(line) => out.push_str(&line),
                None => self.put_message(out, record),
            },
            _ => {
                out.push_str(record.event.event());
                out.push_str(": ");
                self.put_message(out, record);
            }
        }
    }

    /// The symbol at an address, or the address.
    pub fn symbol(&self, address: u64) -> String {
        put::alone(|out| self.put_symbol(out, address))
    }

    /// Puts the [`symbol`](Self::symbol) behind `out`.
    pub fn put_symbol(&self, out: &mut String, address: u64) {
        self.symbols
            .with(address, |symbol| out.push_str(symbol.text()));
    }

    /// The function at an address, without how far into it; or the address.
    pub fn function(&self, address: u64) -> String {
        put::alone(|out| self.put_function(out, address))
    }

    fn put_function(&self, out: &mut String, address: u64) {
        self.symbols
            .with(address, |symbol| symbol.put_function(out));
    }

    /// The function from whose block of `size` bytes at `address` another was called. Nobody has recorded where in the
    /// block, so if [`offsets`](Self::offsets) are wanted it is a range, `+0x40..0x7f/0xc0`, up to where the function
    /// ends.
    fn put_caller(&self, out: &mut String, address: u64, size: u64) {
        if !self.offsets {
            return self.put_function(out, address);
        }
        self.symbols.with(address, |symbol| {
            let (name, place, behind) = symbol.parts();
            let (offset, len) = place.split_once('/').unwrap_or((place, ""));
            let Some(first) = number(offset.trim_start_matches('+')) else {
                return out.push_str(symbol.text());
            };
            let in_block = first.saturating_add(size.saturating_sub(1));
            let last = match number(len) {
                Some(len) => in_block.min(len.saturating_sub(1)),
                None => in_block,
            };
            let slash = if len.is_empty() { "" } else { "/" };
            out.push_str(&format!("{name}+{first:#x}..{last:#x}{slash}{len}{behind}"));
        });
    }

    /// The function of a stack, by the address of a call in it: with how far into it if [`offsets`](Self::offsets) says
    /// so.
    pub fn frame(&self, address: u64) -> String {
        put::alone(|out| self.put_frame(out, address))
    }

    pub(super) fn put_frame(&self, out: &mut String, address: u64) {
        if self.offsets {
            self.put_symbol(out, address);
        } else {
            self.put_function(out, address);
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
        put::alone(|out| self.put_place(out, ty, address))
    }

    /// Puts the [`place`](Self::place) behind `out`.
    pub fn put_place(&self, out: &mut String, ty: &FieldType, address: u64) {
        match ty {
            FieldType::Block { .. } => self.put_function(out, address),
            _ => self.put_symbol(out, address),
        }
    }

    /// A field's value as its type says. An array as ftrace's `__print_array` shows it, `{0x1,0x2}`, signed numbers as well,
    /// but symbols where there are addresses.
    pub fn show(&self, field: &FieldDef, value: &Value) -> String {
        put::alone(|out| self.put_value(out, field, value))
    }

    /// Puts what [`show`](Self::show) says behind `out`.
    pub fn put_value(&self, out: &mut String, field: &FieldDef, value: &Value) {
        if let Some(elements) = value.elements() {
            return self.put_elements(out, field, elements);
        }
        let number = value.number().unwrap_or(0);
        match &field.ty {
            FieldType::Unsigned | FieldType::Prio | FieldType::Irq => put::decimal(out, number),
            FieldType::Signed => put::signed(out, signed(field, number)),
            FieldType::Hex => put::hex(out, number),
            FieldType::Tid => put::decimal(out, self.threads.pid(number as u8)),
            FieldType::Cycles => put::decimal(out, self.clock.ns(number)),
            FieldType::Symbol => self.put_symbol(out, number),
            FieldType::Block { .. } => self.put_function(out, field.ty.address_or_number(number)),
            FieldType::Enum(names) => match FieldType::name_of(names, number) {
                Some(name) => out.push_str(name),
                None => put::decimal(out, number),
            },
            FieldType::Flags(flags) => flags.put(out, number),
            FieldType::Str(_) => put_text(out, value),
        }
    }

    fn put_elements(&self, out: &mut String, field: &FieldDef, elements: &[u64]) {
        out.push('{');
        for (number, element) in elements.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            match field.ty {
                FieldType::Symbol => self.put_symbol(out, *element),
                FieldType::Signed => {
                    let bits = field.slot.element_bits().unwrap_or(64);
                    let bits = bits.next_power_of_two().max(8);
                    let extended = signed(field, *element).cast_unsigned();
                    put::hex(out, extended & (u64::MAX >> (64 - bits)));
                }
                _ => put::hex(out, *element),
            }
        }
        out.push('}');
    }

    /// A field of a record: its value, and a mark if the rest was cut.
    fn put_field(&self, out: &mut String, record: &Record<'_>, field: &FieldDef, value: &Value) {
        self.put_value(out, field, value);
        if record.is_cut && field.slot.is_dynamic() {
            match field.ty {
                FieldType::Str(_) => out.push(REST),
                _ => {
                    out.pop();
                    out.push(',');
                    out.push(REST);
                    out.push('}');
                }
            }
        }
    }

    /// A field of a record of the tracer `function`: the first is a function's entry, which is exact, any other block of
    /// code is where it was called.
    fn put_of_function(&self, out: &mut String, number: usize, field: &FieldDef, value: &Value) {
        match (&field.ty, value.number()) {
            (FieldType::Block { size, .. }, Some(block)) => {
                let address = field.ty.address_or_number(block);
                match number {
                    0 => self.put_frame(out, address),
                    _ => self.put_caller(out, address, *size),
                }
            }
            _ => self.put_value(out, field, value),
        }
    }

    /// A record's fields as the class's template says.
    pub fn message(&self, record: &Record<'_>) -> String {
        put::alone(|out| self.put_message(out, record))
    }

    /// Puts the [`message`](Self::message) behind `out`.
    pub fn put_message(&self, out: &mut String, record: &Record<'_>) {
        let is_function = matches!(record.event.role, Role::Function | Role::FunctionContext);
        if self.hides_parents
            && is_function
            && let Some((field, value)) = record.fields().next()
        {
            return self.put_of_function(out, 0, field, value);
        }
        for part in &record.event.print.0 {
            let (subject, show) = match part {
                Part::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Part::Hole(subject, show) => (*subject, *show),
            };
            let of_field = match subject {
                Subject::Current => None,
                Subject::Field(number) => {
                    match (record.event.fields.get(number), record.values.get(number)) {
                        (Some(field), Some(value)) => Some((number, field, value)),
                        _ => continue,
                    }
                }
            };
            let tid = match of_field {
                None => record.tid,
                Some((.., value)) => value.number().unwrap_or(0) as u8,
            };
            let put_shown = |out: &mut String| match of_field {
                None => put::decimal(out, self.threads.pid(record.tid)),
                Some((number, field, value)) if is_function => {
                    self.put_of_function(out, number, field, value);
                }
                Some((_, field, value)) => self.put_field(out, record, field, value),
            };
            match show {
                Show::Comm { width } => {
                    put::filled(out, self.threads.comm(tid), width, Fill::Spaces)
                }
                Show::Name => out.push_str(self.irqs.shown(tid)),
                Show::Pid => put::decimal(out, self.threads.pid(tid)),
                Show::Time => {
                    let begin = out.len();
                    put_shown(out);
                    let ns = out[begin..].parse().unwrap_or(0);
                    out.truncate(begin);
                    put::seconds(out, ns);
                }
                Show::Value { width, fill } => put::filled_with(out, width, fill, put_shown),
            }
        }
    }
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
        let exact = |hz: u64, cycles: u64| {
            let ns = u128::from(cycles) * 1_000_000_000 / u128::from(hz);
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        for hz in [
            1,
            3,
            999_999_999,
            2_599_999_997,
            1 << 40,
            u64::MAX - 1,
            u64::MAX,
        ] {
            for cycles in [
                0,
                1,
                hz / 3,
                hz - 1,
                hz,
                12_345_678_901_234,
                u64::MAX / 3,
                u64::MAX,
            ] {
                assert_eq!(
                    TscClock::new(hz).ns(cycles),
                    exact(hz, cycles),
                    "{cycles} at {hz}"
                );
            }
        }
    }

    #[test]
    fn threads_have_names() {
        let mut threads = Threads::new(2);
        threads.name(7, "timerlat/0");
        threads.name(1, "never shown");
        assert_eq!(
            (threads.comm(1), threads.task(1), threads.pid(1)),
            ("swapper/1", "<idle>", 0)
        );
        assert_eq!(
            (threads.comm(7), threads.task(7), threads.pid(7)),
            ("timerlat/0", "timerlat/0", 7)
        );
        assert_eq!(threads.comm(8), "<...>");
    }
}
