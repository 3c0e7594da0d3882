//! The record functions: the fast paths of [`takt_tracer::ring`] for this CPU's ring, in as few instructions as there can be.
//!
//! They do the steps of `takt_tracer::ring::writer` and `takt_tracer::ring::text` in their order, which the invariants of
//! the ring rest on; a test holds the records of the two against each other. What does not go straight through is left
//! to the Rust functions, as a whole and anew.
//!
//! # Convention
//! The word is in ecx (what is in the upper half of rcx means nothing); the extra words are in edi, esi, r9d, r10d (two of them in esi and r9d:
//! places with two usually load both by a pointer that is in rdi); a near event's time is in rdi; a text is in rdi and rsi, with the extra word before
//! it in r9d; for any number of extra words r9 and r10 are their address and number. Changed are rax, rcx, rdx, r8, the
//! flags and the SSE registers, and where there is a text r10; all others are kept, so a place that is off costs the code
//! around it next to nothing. The stack is aligned as for any call.
//!
//! Each has three entries, one before the other: `_ctx` looks whether interrupts are enabled and takes [`IRQS_ON`], which
//! the caller has put into the word, out again if they are not; `_known` adds the context word; and the one without
//! context, whose first instruction is longer than a jump (see [`divert_records`](super::divert_records)).
//!
//! Each lies in a section of its own, so that an image has those that its events use.

use core::arch::{asm, global_asm};

use takt_tracer::ring::{self, Word};
use takt_tracer::wire;

use super::percpu;
use super::proof::told;
use crate::config::TRACE_SUB_SIZE;

pub(crate) use super::percpu::IRQS_ON;

/// Bytes of a near event's record, with the lower half of its time and with all of it.
const NEAR_LEN: u32 = 12;
const FAR_LEN: u32 = 16;

/// Bytes of the jump that rules put over the first instruction of each function.
const JUMP_LEN: u32 = 5;

const _: () = assert!(
    ring::Turned::No as u8 == 0 && (ring::Turned::Lost as u8) > ring::Turned::Yes as u8,
    "what the code below is told by comparing with the one in the middle"
);

global_asm!(
    ".section .text.notrace.record, \"ax\"",
    // The three entries. The last one's first five bytes lie in one aligned word of eight, so that they can be changed at
    // once: it is 24 bytes behind what begins at a multiple of 8, or up to 3 more.
    ".macro TAKT_RECORD_ENTRIES name",
    ".pushsection .text.notrace.record.\\name, \"ax\"",
    ".balign 8, 0xcc, 4",
    "takt_\\name\\()_begin:",
    ".skip 3, 0xcc",
    "9:",
    "btr ecx, 22",
    "jmp 4f",
    ".global takt_\\name\\()_ctx",
    "takt_\\name\\()_ctx:",
    "pushfq",
    "pop rax",
    "test ah, 2",
    "jz 9b",
    ".global takt_\\name\\()_known",
    "takt_\\name\\()_known:",
    "4:",
    "or ecx, gs:[{CONTEXT}]",
    ".global takt_\\name",
    "takt_\\name:",
    "mov r8, gs:[{POS}]",
    "takt_\\name\\()_rest:",
    // Fails the build if they do not: 24 bytes lie before the entry, and its first instruction has room for a jump. What is
    // true is 1 or -1, so that less than no room is asked for, which the assembler refuses; else it takes none. (`.if` cannot
    // say it: how long the jumps above are is known only at the end.)
    ".skip -(takt_\\name - takt_\\name\\()_begin != 24) * (takt_\\name - takt_\\name\\()_begin != 24)",
    ".skip -(takt_\\name\\()_rest - takt_\\name < {JUMP_LEN}) * (takt_\\name\\()_rest - takt_\\name < {JUMP_LEN})",
    ".endm",
    //
    // Reserves up to rdx, which is computed by `new` from r8, the position. Then: eax = place in the ring, r8d = time. The
    // upper half of rax counts rounds, so addresses are computed with 32 bits, to which gs is added.
    ".macro TAKT_RESERVE new:vararg",
    "rdtsc",
    "cmp edx, gs:[{TS_HI}]",
    "jne 8f",
    "\\new",
    "TAKT_CLAIM",
    ".endm",
    //
    // What of it comes behind rdx; eax is the time's lower half.
    ".macro TAKT_CLAIM",
    "cmp rdx, gs:[{LIMIT}]",
    "ja 8f",
    "xchg rax, r8",
    "cmpxchg gs:[{POS}], rdx",
    "jne 8f",
    "mov gs:[eax + {RING}], r8d",
    "mov gs:[eax + {RING} + 4], ecx",
    ".endm",
    //
    // Where it does not go straight through: mostly the sub-buffer is full. Then it goes on in the next one, or is lost.
    ".macro TAKT_TURN name",
    told!(
        "call takt_record_turn",
        "5",
        "sub-buffers that are opened for a record"
    ),
    "je takt_\\name\\()_rest",
    "jb 9f",
    "ret",
    "9:",
    ".endm",
    //
    // r8 = the position. Equal: the next sub-buffer was opened; above: the record is lost; below: it takes the slow path, as it
    // does at once while recording is off, and where who runs has to be told first. Six registers, so the stack is aligned.
    "takt_record_turn:",
    "xor eax, eax",
    "cmp qword ptr gs:[{LIMIT}], {ARMED}",
    "jbe 1f",
    ".irp r, rcx,rdi,rsi,r9,r10,r11",
    "push \\r",
    ".endr",
    "call {turn}",
    ".irp r, r11,r10,r9,rsi,rdi,rcx",
    "pop \\r",
    ".endr",
    "mov r8, gs:[{POS}]",
    "1:",
    "cmp al, {TURNED}",
    "ret",
    //
    // Keeps what the Rust function may change, and makes room for four extra words.
    ".macro TAKT_RECORD_KEEP",
    ".irp r, rdi,rsi,r9,r10,r11",
    "push \\r",
    ".endr",
    "sub rsp, 16",
    ".endm",
    //
    ".macro TAKT_RECORD name, len",
    "TAKT_RECORD_ENTRIES \\name",
    "TAKT_RESERVE lea rdx, [r8 + \\len]",
    ".if \\len >= 12",
    ".ifeq \\len - 16",
    "mov gs:[eax + {RING} + 8], esi",
    "mov gs:[eax + {RING} + 12], r9d",
    ".else",
    "mov gs:[eax + {RING} + 8], edi",
    ".endif",
    ".endif",
    ".if \\len >= 20",
    "mov gs:[eax + {RING} + 12], esi",
    "mov gs:[eax + {RING} + 16], r9d",
    ".endif",
    ".if \\len >= 24",
    "mov gs:[eax + {RING} + 20], r10d",
    ".endif",
    "and eax, -{SUB_SIZE}",
    "add qword ptr gs:[rax + {RING} + {COMMIT}], {COMMIT_RECORD} + \\len",
    "ret",
    "8:",
    "TAKT_TURN \\name",
    "push (\\len - 8) / 4",
    "jmp takt_record_slow",
    ".popsection",
    ".endm",
    //
    "TAKT_RECORD rec8, 8",
    "TAKT_RECORD rec12, 12",
    "TAKT_RECORD rec16, 16",
    "TAKT_RECORD rec20, 20",
    "TAKT_RECORD rec24, 24",
    //
    // On the stack: the number of extra words, less 8 if they are two in rdi.
    "takt_record_slow:",
    "pop rax",
    "TAKT_RECORD_KEEP",
    "mov [rsp], rdi",
    "test eax, eax",
    "js 6f",
    "cmp al, 2",
    "jne 5f",
    "mov [rsp], esi",
    "mov esi, r9d",
    "5:",
    "mov [rsp + 4], esi",
    "mov [rsp + 8], r9d",
    "mov [rsp + 12], r10d",
    "6:",
    "and eax, 7",
    "xor edi, edi",
    "takt_record_words:",
    "mov rdx, rsp",
    "mov r8d, eax",
    // rdi and rsi = text and its length, rdx and r8 = extra words and their number, ecx = word.
    "takt_record_bytes:",
    "call {bytes}",
    "add rsp, 16",
    ".irp r, r11,r10,r9,rsi,rdi",
    "pop \\r",
    ".endr",
    "ret",
    //
    // On the stack: the number of extra words, the one in r9d or none.
    "takt_record_text_slow:",
    "pop rax",
    "TAKT_RECORD_KEEP",
    "mov [rsp], r9d",
    "jmp takt_record_words",
    //
    // A near event: its time is in rdi. `TS_HI` has the noted half twice, so that one comparison does for the half of the
    // clock and for that of the time.
    "TAKT_RECORD_ENTRIES rec_near",
    "rdtsc",
    "shld rdx, rdi, 32",
    "xor rdx, gs:[{TS_HI}]",
    "jne 7f",
    "lea rdx, [r8 + {NEAR}]",
    "TAKT_CLAIM",
    "mov gs:[eax + {RING} + 8], edi",
    "and eax, -{SUB_SIZE}",
    "add qword ptr gs:[rax + {RING} + {COMMIT}], {COMMIT_RECORD} + {NEAR}",
    "ret",
    // Far, unless it was the clock's half.
    "7:",
    "shr rdx, 32",
    "jnz 8f",
    "lea rdx, [r8 + {FAR}]",
    "TAKT_CLAIM",
    "or dword ptr gs:[eax + {RING} + 4], {NEAR_FAR}",
    "mov gs:[eax + {RING} + 8], rdi",
    "and eax, -{SUB_SIZE}",
    "add qword ptr gs:[rax + {RING} + {COMMIT}], {COMMIT_RECORD} + {FAR}",
    "ret",
    // On the slow path all of it.
    "8:",
    "TAKT_TURN rec_near",
    "or ch, {NEAR_FAR} >> 8",
    "push -6", // two, in one register
    "jmp takt_record_slow",
    ".popsection",
    //
    // Texts of 4 to 16 bytes, which two moves copy: the end of the text is stored over its beginning where the two meet.
    // r10d = what is added to the commit counter: the length of the record, and one record.
    ".macro TAKT_RECORD_TEXT name, head",
    "TAKT_RECORD_ENTRIES \\name",
    "lea rax, [rsi - 4]",
    "cmp rax, 12",
    "ja 8f",
    "lea r10d, [rsi + {COMMIT_RECORD} + \\head + 4 + 3]",
    "and r10d, {COMMIT_RECORD} + 0x3c",
    "TAKT_RESERVE lea rdx, [r8 + r10 - {COMMIT_RECORD}]",
    ".if \\head > 8",
    "mov gs:[eax + {RING} + 8], r9d",
    ".endif",
    "mov gs:[eax + {RING} + \\head], esi",
    "cmp esi, 8",
    "jb 7f",
    "mov rdx, [rdi]",
    "mov gs:[eax + {RING} + \\head + 4], rdx",
    "mov rdx, [rdi + rsi - 8]",
    "mov gs:[eax + esi + {RING} + \\head + 4 - 8], rdx",
    "6:",
    "and eax, -{SUB_SIZE}",
    "add gs:[rax + {RING} + {COMMIT}], r10",
    "ret",
    "7:",
    "mov edx, [rdi]",
    "mov gs:[eax + {RING} + \\head + 4], edx",
    "mov edx, [rdi + rsi - 4]",
    "mov gs:[eax + esi + {RING} + \\head + 4 - 4], edx",
    "jmp 6b",
    "8:",
    "TAKT_TURN \\name",
    "push (\\head - 8) / 4",
    "jmp takt_record_text_slow",
    ".popsection",
    ".endm",
    //
    "TAKT_RECORD_TEXT rec_text, 8",
    "TAKT_RECORD_TEXT rec_text1, 12",
    //
    // Anything. The first instruction is for its length.
    "TAKT_RECORD_ENTRIES rec_bytes",
    "TAKT_RECORD_KEEP",
    "mov rdx, r9",
    "mov r8, r10",
    "jmp takt_record_bytes",
    ".popsection",
    ".text",
    CONTEXT = const percpu::CONTEXT,
    POS = const percpu::CONTROL + Word::Pos.offset() as usize,
    LIMIT = const percpu::CONTROL + Word::Limit.offset() as usize,
    TS_HI = const percpu::CONTROL + Word::TsHi.offset() as usize,
    RING = const percpu::RING,
    SUB_SIZE = const TRACE_SUB_SIZE,
    COMMIT = const wire::SUB_COMMIT,
    COMMIT_RECORD = const wire::COMMIT_RECORD,
    NEAR = const NEAR_LEN,
    FAR = const FAR_LEN,
    NEAR_FAR = const wire::NEAR_FAR,
    JUMP_LEN = const JUMP_LEN,
    ARMED = const ring::ARMED,
    TURNED = const ring::Turned::Yes as u8,
    bytes = sym crate::probe::ring::record_bytes,
    turn = sym crate::probe::ring::turn,
);

/// Calls to them: `name = SYMBOL(argument: type = register, …) changes register;`.
macro_rules! calls {
    ($($name:ident = $symbol:ident ($($arg:ident: $ty:ty = $register:tt),*) $(changes $changed:tt)?;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(word: usize $(, $arg: $ty)*) {
            unsafe extern "C" {
                fn $symbol();
            }
            // SAFETY: keeps what is not declared here, and writes to this CPU's ring only.
            unsafe {
                asm!("call {}", sym $symbol, inout("rcx") word => _, $(in($register) $arg,)* $(out($changed) _,)?
                    out("rax") _, out("rdx") _, out("r8") _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _);
            }
        }
    )*};
}

calls! {
    rec8 = takt_rec8();
    rec8_ctx = takt_rec8_ctx();
    rec8_known = takt_rec8_known();
    rec12 = takt_rec12(a: u32 = "edi");
    rec12_ctx = takt_rec12_ctx(a: u32 = "edi");
    rec12_known = takt_rec12_known(a: u32 = "edi");
    rec16 = takt_rec16(a: u32 = "esi", b: u32 = "r9d");
    rec16_ctx = takt_rec16_ctx(a: u32 = "esi", b: u32 = "r9d");
    rec16_known = takt_rec16_known(a: u32 = "esi", b: u32 = "r9d");
    rec20 = takt_rec20(a: u32 = "edi", b: u32 = "esi", c: u32 = "r9d");
    rec20_ctx = takt_rec20_ctx(a: u32 = "edi", b: u32 = "esi", c: u32 = "r9d");
    rec20_known = takt_rec20_known(a: u32 = "edi", b: u32 = "esi", c: u32 = "r9d");
    rec24 = takt_rec24(a: u32 = "edi", b: u32 = "esi", c: u32 = "r9d", d: u32 = "r10d");
    rec24_ctx = takt_rec24_ctx(a: u32 = "edi", b: u32 = "esi", c: u32 = "r9d", d: u32 = "r10d");
    rec24_known = takt_rec24_known(a: u32 = "edi", b: u32 = "esi", c: u32 = "r9d", d: u32 = "r10d");
    rec_near_ctx = takt_rec_near_ctx(time: u64 = "rdi");
    rec_near_known = takt_rec_near_known(time: u64 = "rdi");
    rec_text = takt_rec_text(text: *const u8 = "rdi", len: usize = "rsi") changes "r10";
    rec_text_ctx = takt_rec_text_ctx(text: *const u8 = "rdi", len: usize = "rsi") changes "r10";
    rec_text_known = takt_rec_text_known(text: *const u8 = "rdi", len: usize = "rsi") changes "r10";
    rec_text1 = takt_rec_text1(text: *const u8 = "rdi", len: usize = "rsi", extra: u32 = "r9d") changes "r10";
    rec_text1_ctx = takt_rec_text1_ctx(text: *const u8 = "rdi", len: usize = "rsi", extra: u32 = "r9d") changes "r10";
    rec_text1_known = takt_rec_text1_known(text: *const u8 = "rdi", len: usize = "rsi", extra: u32 = "r9d") changes "r10";
    rec_bytes = takt_rec_bytes(text: *const u8 = "rdi", len: usize = "rsi", extra: *const u32 = "r9", nr: usize = "r10");
    rec_bytes_ctx = takt_rec_bytes_ctx(text: *const u8 = "rdi", len: usize = "rsi", extra: *const u32 = "r9", nr: usize = "r10");
    rec_bytes_known = takt_rec_bytes_known(text: *const u8 = "rdi", len: usize = "rsi", extra: *const u32 = "r9", nr: usize = "r10");
}
