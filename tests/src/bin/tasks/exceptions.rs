//! Exceptions that a task cannot raise in QEMU by what it does, but would on a real CPU: by their vectors, whose gates are opened
//! to ring 3 for that, and by a segment that is there for nobody.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_abi::FaultKind::{self, *};
use takt_kernel::task::Ended;
use takt_tests::descriptors::{ABSENT_IN_RING_3, change_gates, install, set_target, target_of};
use takt_tests::harness::Failure;
use takt_tests::{check, check_eq, target_test};

use crate::{VICTIM, start};

/// What the victim is told, and what comes of it: `int 1` is what `icebp` does, which QEMU takes for a debugger's.
const RAISED: &[(u32, FaultKind)] = &[
    (36, Debug),
    (37, DeviceNotAvailable),
    (38, StackFault),
    (39, SegmentNotPresent),
    (40, Alignment),
    (41, Simd),
    (42, Debug),
];

const ALIGNMENT_CHECK: usize = 17;

/// Where the kernel is entered by an alignment check.
static ALIGNMENT_STUB: AtomicU64 = AtomicU64::new(0);

/// Puts the error code there that the CPU has with this exception, and not with its vector's `int`.
#[unsafe(naked)]
extern "C" fn with_code() {
    naked_asm!("push 0", "jmp [rip + {stub}]", stub = sym ALIGNMENT_STUB);
}

/// Lets ring 3 in.
fn open(vector: usize, gate: &mut [u64; 2]) {
    gate[0] |= 3 << 45;
    if vector == ALIGNMENT_CHECK {
        ALIGNMENT_STUB.store(target_of(*gate), Relaxed);
        set_target(gate, with_code as *const () as u64);
    }
}

/// What the victim was stopped for, and where.
// The compiler copies that by more SSE registers than interrupts keep elsewhere.
#[inline(never)]
#[unsafe(link_section = ".text.sse.tests_kind_and_place")]
fn kind_and_place(what: u32) -> Result<(FaultKind, u64), Failure> {
    match &start(VICTIM, what)?.end()? {
        Ended::Stopped(fault) => Ok((fault.kind, fault.rip)),
        Ended::Exited(code) => Err(Failure::new(format_args!("{what} ended with {code}"))),
    }
}

target_test! {
    /// Each stops the task, as what it is, and at the instruction that raised it or behind that.
    fn exceptions_that_only_hardware_raises(Alone) {
        change_gates(&[1, 7, ALIGNMENT_CHECK, 19], open);
        install(ABSENT_IN_RING_3);
        for &(what, kind) in RAISED {
            let (stopped_for, rip) = kind_and_place(what)?;
            check_eq!((what, stopped_for), (what, kind));
            check!(rip > 0x80_0000_0000, "{what}: {rip:#x}");
        }
        Ok(())
    }
}
