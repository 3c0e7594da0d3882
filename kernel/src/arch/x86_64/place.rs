//! Places: where the kernel tells whoever wants to hear of it what it does.
//!
//! A place is one instruction while no one listens, `test eax, imm32` as any static key's. Listened to it is a jump to a way
//! round of its own: that pushes one word and the place's address and goes to a hook, which keeps every register and comes
//! back behind the place. The way is assembly. So the code around a place is the same and is passed in the same way whether
//! someone listens or not, and what a hook takes is the same wherever it is called.
//!
//! A hook keeps all registers, which costs more than the record of an event does. So where interrupts begin, threads are woken
//! and switched to (`recorded_place!`), the way round goes to the code around the place while no tracer of latencies listens: the
//! compiler knows there what is to be kept. Its second instruction is a static branch by [`TIMED`].
//!
//! While a tracer of latencies listens, a hook takes a time stamp when it begins and one when it ends, with interrupts off,
//! and adds what lies in between to the CPU's hidden cycles, with what it takes besides ([`timed`](super::timed)). The TSC less the
//! hidden cycles is the clock of a system without hooks.
//!
//! # Invariants
//! * A hook keeps all general registers. A place declares the SSE registers and the arithmetic flags as changed.
//! * Between the two time stamps there is no other hook on that CPU but those of NMIs, which are part of it: they leave what
//!   the hook has noted as it was, and where they came while it took a time stamp that is taken anew (`timed::UnderWay`).

use super::jump_label::keys;
#[cfg(feature = "trace")]
use super::proof::shown;

keys! {
    /// Hooks are timed.
    pub(crate) TIMED;
}

#[cfg(feature = "trace")]
core::arch::global_asm!(
    // The ways round, of all places.
    ".section .text.ways, \"ax\"",
    "takt_ways:",
    ".section .text.thunk, \"ax\"",
    // A function of ours that is called here is shown with its caller, which is known by its block.
    ".balign 64",
    // On the stack: the function, the place's address, its word. The frame is that of a function which the place has called.
    "takt_place_hook:",
    "xchg rbp, [rsp]",
    ".irp r, rax,rcx,rdx,rsi,rdi,r8,r9,r10,r11",
    "push \\r",
    ".endr",
    "pushfq",
    "mov r8, rbp",
    "lea rbp, [rsp + 80]",
    // A static branch as `static_branch!` makes them. Without tracers of latencies there is no such way.
    ".weak takt_place_timed",
    "2: .byte 0xa9",
    ".long takt_place_timed - . - 4",
    ".pushsection .takt.jump_table, \"a\", @progbits",
    ".long 2b",
    ".short {timed}",
    ".popsection",
    // The function is told the place, its word, rcx there, and the flags. So at `takt_place_timed`.
    "mov edi, [rbp + 8]",
    "mov rsi, [rbp + 16]",
    "mov rdx, rcx",
    "mov rcx, [rbp - 80]",
    "and rsp, -16",
    "call r8",
    "takt_place_hook_end:",
    shown!("lea rsp, [rbp - 80]"),
    "popfq",
    ".irp r, r11,r10,r9,r8,rdi,rsi,rdx,rcx,rax",
    "pop \\r",
    ".endr",
    "pop rbp",
    "ret 8",
    ".text",
    timed = sym TIMED,
);

/// The instructions of a place: the way round begins with this one.
#[cfg(feature = "trace")]
macro_rules! place_text {
    ($hook:literal, $push:literal) => {
        concat!(
            "2: .byte 0xa9\n",
            ".long 4f - 3f\n",
            "3:\n",
            ".pushsection .text.ways, \"ax\"\n",
            "4: ",
            $push,
            // push offset 3b
            "\n.byte 0x68\n",
            ".long 3b\n",
            "jmp takt_place_",
            $hook,
            "\n.popsection\n",
            ".pushsection .takt.jump_table, \"a\", @progbits\n",
            ".long 2b\n",
            ".short {key}\n",
            ".popsection"
        )
    };
}
#[cfg(feature = "trace")]
pub(crate) use place_text;

/// The instructions of a place whose event the code around it records, at `$recorded`, while no hook is timed. The way round
/// of one whose hooks are timed has as many instructions as that of any other place.
macro_rules! recorded_place_text {
    ($hook:literal, $push:literal, $recorded:literal) => {
        concat!(
            "2: .byte 0xa9\n",
            ".long 4f - 3f\n",
            "3:\n",
            ".pushsection .text.ways, \"ax\"\n",
            "4: .byte 0xa9\n",
            ".long 6f - 5f\n",
            "5: jmp ",
            $recorded,
            "\n6: ",
            $push,
            // push offset 3b
            "\n.byte 0x68\n",
            ".long 3b\n",
            "push offset ",
            $hook,
            "\n",
            "jmp takt_place_hook\n",
            ".popsection\n",
            ".pushsection .takt.jump_table, \"a\", @progbits\n",
            ".long 2b\n",
            ".short {key}\n",
            ".long 4b\n",
            ".short {timed}\n",
            ".popsection"
        )
    };
}
pub(crate) use recorded_place_text;

/// The instructions of a place among others, with what they use: what a place changes is declared.
#[cfg(feature = "trace")]
macro_rules! place_asm {
    ($($text:expr),+; $($operands:tt)*) => {
        // SAFETY: an instruction that changes the flags only; or a jump to what calls a function of the kernel's that may be
        // called there, and keeps what is not declared here. It pushes, which is sound with `nostack`: the image is compiled
        // without a red zone (`xtask::image::build`), and the hook aligns the stack.
        unsafe {
            ::core::arch::asm!(
                $($text,)+
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                $($operands)*
            );
        }
    };
}
#[cfg(feature = "trace")]
pub(crate) use place_asm;

/// A place: where this key is on it calls the hook of that name, with the word if one is given. Else it is one instruction, and
/// without feature `trace` none.
#[cfg(feature = "trace")]
macro_rules! place {
    ($key:path, $hook:literal) => {
        $crate::arch::place::place!(@ $key, $hook, "push -1", options(nostack))
    };
    ($key:path, $hook:literal, $word:expr) => {
        $crate::arch::place::place!(@ $key, $hook, "push {word}", word = in(reg) $word, options(nostack))
    };
    (@ $key:path, $hook:literal, $push:literal, $($operands:tt)*) => {
        $crate::arch::place::place_asm!(
            $crate::arch::place::place_text!($hook, $push);
            key = sym $key,
            $($operands)*
        )
    };
}
#[cfg(not(feature = "trace"))]
macro_rules! place {
    ($key:path, $hook:literal) => {
        let _ = &$key;
    };
    ($key:path, $hook:literal, $word:expr) => {
        let _ = (&$key, $word);
    };
}
pub(crate) use place;

/// A place whose event the caller records: whether it is to. Where hooks are timed the hook does it, which is called with the
/// word.
///
/// Nothing around the place is read anew behind it: what the hook writes belongs to the tracer alone.
#[cfg(feature = "latency-tracers")]
macro_rules! recorded_place {
    ($key:path, $hook:literal, $word:expr) => {
        'place: {
            $crate::arch::place::place_asm!(
                $crate::arch::place::recorded_place_text!($hook, "push {word}", "{recorded}");
                key = sym $key,
                timed = sym $crate::arch::place::TIMED,
                word = in(reg) $word,
                recorded = label { break 'place true },
                options(nostack, readonly)
            );
            false
        }
    };
}
#[cfg(not(feature = "latency-tracers"))]
macro_rules! recorded_place {
    ($key:path, $hook:literal, $word:expr) => {{
        let _ = $word;
        $crate::static_branch!($key)
    }};
}
pub(crate) use recorded_place;
