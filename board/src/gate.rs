//! Where the control thread of a guest under icount stands still until the host has something for it to do
//! ([`takt_tracer::control::gate`]).

use takt_kernel::machine::Port;
use takt_tracer::control::gate::{BYTE, PORTS, READBACK};

/// Whether the machine has it.
pub(crate) fn is_there() -> bool {
    // SAFETY: reading the ports has no effect, and there is nothing else at them in a PC.
    PORTS.map(|port| unsafe { Port::<u8>::new(port).read() }) == [READBACK; PORTS.len()]
}

/// Comes back when the host lets it; no virtual time passes meanwhile.
pub(crate) fn pass() {
    for port in PORTS {
        // SAFETY: a machine whose command line has the word for it has these ports, and they do nothing to memory.
        unsafe { Port::<u8>::new(port).write(BYTE) };
    }
}
