//! Choices on the command line.

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::{Deserialize, Serialize};
use takt_tracer::named::Named;

/// Takes the names of a set, with what each is about in the help.
pub(super) fn named<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let values = T::ALL
        .iter()
        .map(|it| PossibleValue::new(it.name()).help(it.about().trim_end_matches('.')));
    PossibleValuesParser::new(values)
        .map(|name| T::from_name(&name).expect("clap takes no other name than those of the set"))
}

/// The accelerator asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccelChoice {
    /// KVM where it works, else TCG.
    Auto,
    /// Hardware virtualisation: real time.
    Kvm,
    /// QEMU's translator: with icount, virtual time that counts instructions.
    Tcg,
}

macro_rules! display_as_value {
    ($($name:ident),+) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.to_possible_value().as_ref().map_or("?", |value| value.get_name()))
            }
        }
    )+};
}
display_as_value!(AccelChoice, Format);

/// What `trace` writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// ftrace's text.
    Text,
    /// The text of ftrace's latency tracers: times from the first event on, and marks where it takes long. Of a run with
    /// such a tracer only the stretch of its last maximum, unless --from or --to say what is wanted.
    Latency,
    /// trace-cmd's file, for `trace-cmd report` and KernelShark.
    #[value(name = "trace.dat")]
    TraceDat,
    /// The Common Trace Format, for babeltrace2 and Trace Compass: a folder.
    Ctf,
    /// Perfetto's protobuf, for ui.perfetto.dev.
    Perfetto,
    /// One JSON object a line.
    Json,
    /// Comma-separated values with a header line.
    Csv,
    /// Chrome's trace events (JSON), for about:tracing, Perfetto and speedscope.
    Chrome,
    /// Folded stacks: the ns that each thread ran, and each interrupt in it.
    Flamegraph,
    /// ftrace's function_graph: what --tracer function_graph has recorded, nested, with net durations.
    Graph,
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
