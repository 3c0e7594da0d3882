//! `trace_options`: how a trace is shown.

use takt_tracer::control::Setting;

/// What is shown of a graph of functions, as ftrace's options of these names (with `funcgraph-` before them) say.
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

/// How a trace is shown, as ftrace's options of these names say; `graph` are those of function_graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the options")]
pub struct Options {
    pub print_parent: bool,
    pub sym_offset: bool,
    pub sym_addr: bool,
    pub verbose: bool,
    pub raw: bool,
    pub hex: bool,
    pub bin: bool,
    pub annotate: bool,
    pub latency_format: bool,
    pub graph: Columns,
}

/// The names, in the order in which they are listed.
pub const NAMES: [&str; 13] = [
    "print-parent",
    "sym-offset",
    "sym-addr",
    "verbose",
    "raw",
    "hex",
    "bin",
    STACKTRACE,
    FUNC_STACK_TRACE,
    "annotate",
    OVERWRITE,
    "latency-format",
    FUNCTION_TRACE,
];

/// Those of function_graph.
pub const GRAPH_NAMES: [&str; 7] = [
    "funcgraph-overhead",
    "funcgraph-cpu",
    "funcgraph-proc",
    "funcgraph-duration",
    "funcgraph-abstime",
    "funcgraph-irqs",
    "funcgraph-tail",
];

/// The option that is the guest's: whether a full ring overwrites the oldest.
pub const OVERWRITE: &str = "overwrite";
/// The guest's as well: whether it records a stack after every event.
pub const STACKTRACE: &str = "stacktrace";
/// The guest's as well: whether it records a stack after every function of the tracer `function`.
pub const FUNC_STACK_TRACE: &str = "func_stack_trace";
/// The guest's as well: whether the latency tracers have functions recorded.
pub const FUNCTION_TRACE: &str = "function-trace";

/// What sets an option that is the guest's; `None` for the others.
#[must_use]
pub fn setting(name: &str, on: bool) -> Option<Setting<'static>> {
    Some(match name {
        OVERWRITE => Setting::Overwrite(on),
        STACKTRACE => Setting::StackTrace(on),
        FUNC_STACK_TRACE => Setting::FuncStackTrace(on),
        FUNCTION_TRACE => Setting::FunctionTrace(on),
        _ => return None,
    })
}

impl Default for Options {
    fn default() -> Self {
        Self {
            print_parent: true,
            sym_offset: false,
            sym_addr: false,
            verbose: false,
            raw: false,
            hex: false,
            bin: false,
            annotate: true,
            latency_format: false,
            graph: Columns::default(),
        }
    }
}

impl Options {
    fn place(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "print-parent" => &mut self.print_parent,
            "sym-offset" => &mut self.sym_offset,
            "sym-addr" => &mut self.sym_addr,
            "verbose" => &mut self.verbose,
            "raw" => &mut self.raw,
            "hex" => &mut self.hex,
            "bin" => &mut self.bin,
            "annotate" => &mut self.annotate,
            "latency-format" => &mut self.latency_format,
            "funcgraph-overhead" => &mut self.graph.overhead,
            "funcgraph-cpu" => &mut self.graph.cpu,
            "funcgraph-proc" => &mut self.graph.proc,
            "funcgraph-duration" => &mut self.graph.duration,
            "funcgraph-abstime" => &mut self.graph.abstime,
            "funcgraph-irqs" => &mut self.graph.irqs,
            "funcgraph-tail" => &mut self.graph.tail,
            _ => return None,
        })
    }

    /// Whether an option is on; `None` if it is not one of the output.
    #[must_use]
    pub fn get(mut self, name: &str) -> Option<bool> {
        self.place(name).map(|on| *on)
    }

    /// Switches an option of the output; says whether there is one of that name.
    pub fn set(&mut self, name: &str, on: bool) -> bool {
        match self.place(name) {
            Some(place) => *place = on,
            None => return false,
        }
        true
    }

    /// Switches an option on by its name, or off by its name with `no` before it; says whether there is one.
    pub fn set_by_name(&mut self, name: &str) -> bool {
        let (name, on) = split(name);
        self.set(name, on)
    }
}

/// The option that a word names, and whether the word switches it on.
#[must_use]
pub fn split(word: &str) -> (&str, bool) {
    match word.strip_prefix("no") {
        Some(name) if NAMES.contains(&name) || GRAPH_NAMES.contains(&name) => (name, false),
        _ => (word, true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_goes_on_and_off_by_its_name() {
        let mut options = Options::default();
        let of_output = NAMES
            .iter()
            .chain(&GRAPH_NAMES)
            .filter(|name| Options::default().get(name).is_some());
        for name in of_output {
            for (word, on) in [((*name).to_owned(), true), (format!("no{name}"), false)] {
                assert!(options.set_by_name(&word), "{word}");
                assert_eq!(options.get(name), Some(on), "{word}");
            }
        }
        let of_guest = [OVERWRITE, STACKTRACE, FUNC_STACK_TRACE, FUNCTION_TRACE];
        for word in [&["", "no", "nono", "nonsense", "norawraw"][..], &of_guest].concat() {
            assert!(!options.set_by_name(word), "{word}");
        }
    }
}
