//! What can be wrong with input, and where.

/// Something in the input is not as it should be. Reading goes on behind it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {fault}{}", Skipped(*.skipped))]
pub struct Damage {
    /// Where it was found, in bytes from the beginning of the input.
    pub offset: u64,
    /// Bytes that were passed over because of it.
    pub skipped: u64,
    /// What is wrong.
    pub fault: Fault,
}

struct Skipped(u64);

impl core::fmt::Display for Skipped {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            0 => Ok(()),
            bytes => write!(f, " ({bytes} bytes skipped)"),
        }
    }
}

/// What is wrong with a frame, a sub-buffer or a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Something else stands where a frame should begin.
    #[error("no frame begins here")]
    NoFrame,
    /// A format version that this program does not know.
    #[error("format version {found}, but this program knows {known}")]
    Version {
        /// The one found.
        found: u16,
        /// The one known.
        known: u16,
    },
    /// A channel that does not belong into this file.
    #[error("channel {found} in a file of channel {expected}")]
    Channel {
        /// The one found.
        found: u8,
        /// The one of the file.
        expected: u8,
    },
    /// A CPU that the file header does not count.
    #[error("CPU {found}, but the file has {nr_cpus}")]
    Cpu {
        /// The one found.
        found: u8,
        /// The number of CPUs.
        nr_cpus: u32,
    },
    /// A payload of impossible length.
    #[error("a payload of {found} bytes, where {expected} were expected")]
    Length {
        /// The length found.
        found: u32,
        /// The length, or the greatest length, there may be.
        expected: u32,
    },
    /// The checksum does not fit.
    #[error("the checksum is {found:#018x}, but the bytes give {computed:#018x}")]
    Sum {
        /// The one in the frame.
        found: u64,
        /// That of the bytes.
        computed: u64,
    },
    /// The input ends inside a frame.
    #[error("the input ends {missing} bytes before the end of the frame")]
    Truncated {
        /// Bytes that are not there.
        missing: u64,
    },
    /// Frames are missing.
    #[error("frame {found} of CPU {cpu} follows where {expected} should")]
    FrameGap {
        /// The CPU.
        cpu: u8,
        /// The number that should follow.
        expected: u32,
        /// The one that does.
        found: u32,
    },
    /// A sub-buffer that was there before, or comes too late.
    #[error("sub-buffer {found} of CPU {cpu} comes after sub-buffer {last}")]
    SubOrder {
        /// The CPU.
        cpu: u8,
        /// Its number.
        found: u64,
        /// The greatest number so far.
        last: u64,
    },
    /// A sub-buffer's commit counter makes no sense.
    #[error("{committed} bytes are committed in a sub-buffer of {size}")]
    Committed {
        /// Bytes committed.
        committed: u32,
        /// Bytes of the sub-buffer.
        size: u64,
    },
    /// The CPU in the sub-buffer is not that of the frame.
    #[error("a sub-buffer of CPU {found} in a frame of CPU {expected}")]
    SubCpu {
        /// The CPU in the sub-buffer.
        found: u8,
        /// The CPU of the frame.
        expected: u8,
    },
    /// An event that the metadata does not have.
    #[error("event {id} is unknown: does the metadata belong to this trace?")]
    UnknownEvent {
        /// Its id.
        id: u32,
    },
    /// A record that reaches beyond the end.
    #[error("a record of event {id} needs {need} bytes, but {have} are left")]
    ShortRecord {
        /// The event.
        id: u32,
        /// Bytes that it needs.
        need: u64,
        /// Bytes that are left.
        have: u64,
    },
    /// A record is older than the one before it.
    #[error("time goes back by {by} cycles")]
    TimeBack {
        /// Cycles.
        by: u64,
    },
    /// The header counts another number of records than there are.
    #[error("the sub-buffer has {found} records, but its header counts {counted}")]
    Count {
        /// Records found.
        found: u64,
        /// Records counted.
        counted: u64,
    },
    /// Bytes were reserved but never committed: a writer was stopped inside a write.
    #[error("{bytes} bytes were reserved but not written")]
    Hole {
        /// Bytes.
        bytes: u64,
    },
}

/// Reading cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input cannot be read.
    #[error("byte {offset}: cannot read the trace")]
    Io {
        /// Where.
        offset: u64,
        /// Why.
        source: std::io::Error,
    },
    /// The file header is unusable.
    #[error("byte {offset}: {fault}")]
    Header {
        /// Where.
        offset: u64,
        /// What is wrong.
        fault: HeaderFault,
    },
}

/// What is wrong with a file header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    /// The file is shorter than a header.
    #[error("the file ends inside its header, after {found} bytes")]
    Short {
        /// Bytes there are.
        found: u64,
    },
    /// The file is something else.
    #[error("this is no {expected} file: it begins with {}", .found.escape_ascii())]
    Magic {
        /// The first bytes.
        found: [u8; 8],
        /// What it should be.
        expected: &'static str,
    },
    /// A format version that this program does not know.
    #[error("file format version {found}, but this program knows {known}")]
    Version {
        /// The one found.
        found: u32,
        /// The one known.
        known: u32,
    },
    /// A field of the header has an impossible value.
    #[error("{what} cannot be {found}")]
    Value {
        /// The field.
        what: &'static str,
        /// Its value.
        found: u64,
    },
}

/// The metadata cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metadata, byte {offset}: {reason}")]
pub struct MetaError {
    /// Where, in bytes from the beginning of the section.
    pub offset: u64,
    /// What is wrong, with the offending text.
    pub reason: String,
}
