//! Messages of Perfetto's schema, written field by field into one buffer, with the schema's field numbers. The tests read
//! them again with the published schema.
//!
//! Source: `protos/perfetto/trace` of the Perfetto project; "Encoding", the document of Protocol Buffers.

/// Kinds of fields on the wire.
const VARINT: u32 = 0;
const BYTES: u32 = 2;

/// `Trace`
pub(super) mod trace {
    pub(in super::super) const PACKET: u32 = 1;
}

/// `TracePacket`
pub(super) mod packet {
    pub(in super::super) const FTRACE_EVENTS: u32 = 1;
    pub(in super::super) const TRUSTED_PACKET_SEQUENCE_ID: u32 = 10;
    pub(in super::super) const FTRACE_STATS: u32 = 34;
}

/// `FtraceEventBundle`
pub(super) mod bundle {
    pub(in super::super) const CPU: u32 = 1;
    pub(in super::super) const EVENT: u32 = 2;
    pub(in super::super) const LOST_EVENTS: u32 = 3;
}

/// `FtraceEvent`
pub(super) mod event {
    pub(in super::super) const TIMESTAMP: u32 = 1;
    pub(in super::super) const PID: u32 = 2;
    pub(in super::super) const COMMON_FLAGS: u32 = 5;
    pub(in super::super) const PRINT: u32 = 3;
    pub(in super::super) const SCHED_SWITCH: u32 = 4;
    pub(in super::super) const SCHED_WAKEUP: u32 = 17;
    pub(in super::super) const SCHED_WAKING: u32 = 20;
    pub(in super::super) const IRQ_HANDLER_ENTRY: u32 = 36;
    pub(in super::super) const IRQ_HANDLER_EXIT: u32 = 37;
    pub(in super::super) const GENERIC: u32 = 327;
}

/// `GenericFtraceEvent` and its `Field`
pub(super) mod generic {
    pub(in super::super) const EVENT_NAME: u32 = 1;
    pub(in super::super) const FIELD: u32 = 2;
    pub(in super::super) const NAME: u32 = 1;
    pub(in super::super) const STR_VALUE: u32 = 3;
    pub(in super::super) const INT_VALUE: u32 = 4;
    pub(in super::super) const UINT_VALUE: u32 = 5;
}

/// `FtraceStats` and `FtraceCpuStats`
pub(super) mod stats {
    pub(in super::super) const PHASE: u32 = 1;
    pub(in super::super) const CPU_STATS: u32 = 2;
    pub(in super::super) const CPU: u32 = 1;
    pub(in super::super) const DROPPED_EVENTS: u32 = 8;
    pub(in super::super) const READ_EVENTS: u32 = 9;
}

/// Puts a number behind `out`; a negative one as the 64 bits that it is in two's complement.
pub(super) fn number(out: &mut Vec<u8>, field: u32, number: u64) {
    varint(out, u64::from(field << 3 | VARINT));
    varint(out, number);
}

/// Puts a text behind `out`.
pub(super) fn text(out: &mut Vec<u8>, field: u32, text: &str) {
    varint(out, u64::from(field << 3 | BYTES));
    varint(out, text.len() as u64);
    out.extend(text.bytes());
}

/// Puts a message behind `out`, whose fields `put` puts.
pub(super) fn message(out: &mut Vec<u8>, field: u32, put: impl FnOnce(&mut Vec<u8>)) {
    varint(out, u64::from(field << 3 | BYTES));
    let begin = out.len();
    put(out);
    // How long it is stands before it, and is known now.
    let end = out.len();
    varint(out, (end - begin) as u64);
    let nr = out.len() - end;
    out[begin..].rotate_right(nr);
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the document.
    #[test]
    fn fields_are_encoded_as_the_document_says() {
        let mut out = Vec::new();
        number(&mut out, 1, 150);
        assert_eq!(out, [0x08, 0x96, 0x01]);
        out.clear();
        text(&mut out, 2, "testing");
        assert_eq!(out, b"\x12\x07testing");
        out.clear();
        message(&mut out, 3, |out| number(out, 1, 150));
        assert_eq!(out, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        out.clear();
        message(&mut out, 3, |out| text(out, 2, &"x".repeat(300)));
        assert_eq!(out[..6], [0x1a, 0xaf, 0x02, 0x12, 0xac, 0x02]);
        assert_eq!(out.len(), 306);
        out.clear();
        number(&mut out, 1, (-2_i64).cast_unsigned());
        assert_eq!(out.len(), 11);
    }
}
