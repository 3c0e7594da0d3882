//! The gate: where a guest under icount stands still until its host has something to do for it.
//!
//! Under icount a guest that waits for its host races through virtual time. So its control thread writes a byte to each of
//! [`PORTS`] instead, one after the other. Each is a device whose byte goes into a pipe of the host's, and whose instruction
//! does not end before the pipe has room; meanwhile no instruction of the guest is executed and no virtual time passes. (QEMU's own
//! `stop` may skip to the next deadline.)
//!
//! ```text
//!  guest   out PORTS[0]   out PORTS[1]          out PORTS[2]
//!  pipe    has room       is full: waits        is full: waits
//!  host    knows that     sends settings;       empties it,
//!          it came        empties and fills it  fills it later
//! ```
//!
//! There are two that are full because a pipe is filled anew only once the byte has come through: meanwhile the guest waits
//! at the other.

/// The word of the kernel's command line that has the guest wait here between settings: `control_gate=1`.
pub const WORD: &str = "control_gate";
/// The ports.
pub const PORTS: [u16; 3] = [0x402, 0x403, 0x404];
/// What reads from each of them: QEMU's `isa-debugcon` says so unless it is told otherwise.
pub const READBACK: u8 = 0xe9;
/// The byte that the guest writes.
pub const BYTE: u8 = 1;
