//! The messages of Perfetto's schema that are written, with its field numbers. The tests read them again with the
//! published schema.
//!
//! Source: `protos/perfetto/trace` of the Perfetto project.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(uint32, optional, tag = "10")]
    pub(super) trusted_packet_sequence_id: Option<u32>,
    #[prost(oneof = "Data", tags = "1, 34")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "1")]
    FtraceEvents(FtraceEventBundle),
    #[prost(message, tag = "34")]
    FtraceStats(FtraceStats),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceEventBundle {
    #[prost(uint32, optional, tag = "1")]
    pub(super) cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub(super) event: Vec<FtraceEvent>,
    #[prost(bool, optional, tag = "3")]
    pub(super) lost_events: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) pid: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub(super) common_flags: Option<u32>,
    #[prost(oneof = "Event", tags = "3, 4, 17, 20, 36, 37, 327")]
    pub(super) event: Option<Event>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Event {
    #[prost(message, tag = "3")]
    Print(Print),
    #[prost(message, tag = "4")]
    SchedSwitch(SchedSwitch),
    #[prost(message, tag = "17")]
    SchedWakeup(SchedWakeup),
    #[prost(message, tag = "20")]
    SchedWaking(SchedWakeup),
    #[prost(message, tag = "36")]
    IrqHandlerEntry(IrqHandlerEntry),
    #[prost(message, tag = "37")]
    IrqHandlerExit(IrqHandlerExit),
    #[prost(message, tag = "327")]
    Generic(Generic),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Print {
    #[prost(string, optional, tag = "2")]
    pub(super) buf: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SchedSwitch {
    #[prost(string, optional, tag = "1")]
    pub(super) prev_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) prev_prio: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub(super) prev_state: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub(super) next_comm: Option<String>,
    #[prost(int32, optional, tag = "6")]
    pub(super) next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub(super) next_prio: Option<i32>,
}

/// `sched_wakeup` and `sched_waking`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SchedWakeup {
    #[prost(string, optional, tag = "1")]
    pub(super) comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) prio: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub(super) target_cpu: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct IrqHandlerEntry {
    #[prost(int32, optional, tag = "1")]
    pub(super) irq: Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct IrqHandlerExit {
    #[prost(int32, optional, tag = "1")]
    pub(super) irq: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(super) ret: Option<i32>,
}

/// An event that Perfetto does not know.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Generic {
    #[prost(string, optional, tag = "1")]
    pub(super) event_name: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub(super) field: Vec<Field>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Field {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(oneof = "Value", tags = "3, 4, 5")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Value {
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(int64, tag = "4")]
    Int(i64),
    #[prost(uint64, tag = "5")]
    Uint(u64),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceStats {
    /// 2: at the end of the trace.
    #[prost(int32, optional, tag = "1")]
    pub(super) phase: Option<i32>,
    #[prost(message, repeated, tag = "2")]
    pub(super) cpu_stats: Vec<FtraceCpuStats>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FtraceCpuStats {
    #[prost(uint64, optional, tag = "1")]
    pub(super) cpu: Option<u64>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) dropped_events: Option<u64>,
    #[prost(uint64, optional, tag = "9")]
    pub(super) read_events: Option<u64>,
}
