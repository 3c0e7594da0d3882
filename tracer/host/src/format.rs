//! [`Format`]: which formats there are.

use takt_tracer::named;

named! {
    /// What `trace` writes.
    pub enum Format {
        /// ftrace's text.
        Text = "text",
        /// The text of ftrace's latency tracers: times from the first event on, and marks where it takes long. Of a run with such a tracer only the stretch of its last maximum, unless --from or --to say what is wanted.
        Latency = "latency",
        /// trace-cmd's file, for `trace-cmd report` and KernelShark.
        TraceDat = "trace.dat",
        /// The Common Trace Format, for babeltrace2 and Trace Compass: a folder.
        Ctf = "ctf",
        /// Perfetto's protobuf, for ui.perfetto.dev.
        Perfetto = "perfetto",
        /// One JSON object a line.
        Json = "json",
        /// Comma-separated values with a header line.
        Csv = "csv",
        /// Chrome's trace events (JSON), for about:tracing, Perfetto and speedscope.
        Chrome = "chrome",
        /// Folded stacks: the ns that each thread ran, and each interrupt in it.
        Flamegraph = "flamegraph",
        /// ftrace's function_graph: what --tracer function_graph has recorded, nested, with net durations.
        Graph = "graph",
    }
}

impl Format {
    /// Whether it is a folder.
    #[must_use]
    pub const fn is_folder(self) -> bool {
        matches!(self, Self::Ctf)
    }

    /// Whether it is not for a terminal.
    #[must_use]
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::TraceDat | Self::Perfetto)
    }

    /// Whether it is lines for people: nothing of the guest's may control their terminal.
    #[must_use]
    pub const fn is_text(self) -> bool {
        matches!(
            self,
            Self::Text | Self::Latency | Self::Flamegraph | Self::Graph
        )
    }
}
