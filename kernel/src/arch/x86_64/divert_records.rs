//! The record functions, diverted for rules: who wants to look at every record before it is made.
//!
//! Each of the functions in [`record`](super::record) begins with an instruction of nine bytes that means the same
//! anywhere, and does not cross a multiple of 8 with its first five (the assembler checks the latter). These are replaced by a
//! jump and put back again, so what is off costs nothing at all, not even a NOP; and nobody ever stands inside it, neither a
//! thread that was preempted nor another CPU.
//!
//! The diverted form hands the arguments to [`Before`], makes the record by a copy
//! of that instruction and the rest of the function if it may, and tells [`After`]
//! if that is wanted. It keeps what the function keeps.

use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use takt_tracer::ring::Word;

use super::jump_label::{JUMP, Writable, branch, code_at};
use super::percpu;
use crate::compact::{between, rolled};

/// A record that is about to be made.
#[repr(C)]
#[derive(Debug)]
pub struct Arguments {
    /// Its word as it will be written (id, fields, and the context where the layout has one), then the extra words. What is
    /// behind them means nothing. Of a near event's time both words are there, whatever will be written of it.
    words: [u32; 9],
    /// How many of the extra words there are.
    nr: u32,
    /// The dynamic field; null if there is none.
    text: *const u8,
    /// Its length in bytes, as it was given.
    len: usize,
}

impl Arguments {
    /// The word.
    #[must_use]
    pub const fn word(&self) -> u32 {
        self.words[0]
    }

    /// The word and the extra words.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        self.words.get(..=self.nr as usize).unwrap_or(&self.words)
    }

    /// The extra words.
    #[must_use]
    pub fn extra(&self) -> &[u32] {
        self.words().get(1..).unwrap_or_default()
    }

    /// The dynamic field.
    #[must_use]
    pub fn text(&self) -> Option<&[u8]> {
        // SAFETY: the text that the record is made of: only the record functions make one of these.
        (!self.text.is_null()).then(|| unsafe { core::slice::from_raw_parts(self.text, self.len) })
    }
}

/// Asked before a record is made: bit 0 says that it is to be made; if other bits are set, [`After`] is told of them.
///
/// Runs wherever the event is emitted: threads, interrupts, NMIs, with interrupts on or off. An event that it emits itself is
/// asked about like any other, and comes before.
pub type Before = fn(&Arguments) -> u32;
/// Told after the record, or the refusal, what [`Before`] said.
pub type After = fn(u32);

static BEFORE: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static AFTER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// A record function: where it begins, and what it is replaced by.
#[repr(C)]
struct Function {
    place: u32,
    diverted: u32,
}

global_asm!(
    ".section .text.notrace.record, \"ax\"",
    // `nr` extra words in registers; 0x100 and more: a text behind; 0x200: extra words in memory; 0x400: those
    // two in other registers; 0x800: those two in one register.
    ".macro TAKT_DIVERTED name, nr",
    // With the function, so that both are in the image or neither is; as the entry of the table.
    ".pushsection .text.notrace.record.\\name, \"ax\"",
    "takt_\\name\\()_diverted:",
    "lea rdx, [rip + takt_\\name\\()_rest]",
    "mov eax, \\nr",
    "jmp takt_record_diverted",
    ".popsection",
    ".pushsection .takt.records, \"ao\", @progbits, takt_\\name\\()_diverted",
    ".long takt_\\name, takt_\\name\\()_diverted",
    ".popsection",
    ".endm",
    "TAKT_DIVERTED rec8, 0",
    "TAKT_DIVERTED rec12, 1",
    "TAKT_DIVERTED rec16, 0x402",
    "TAKT_DIVERTED rec20, 3",
    "TAKT_DIVERTED rec24, 4",
    "TAKT_DIVERTED rec_near, 0x802",
    "TAKT_DIVERTED rec_text, 0x100",
    "TAKT_DIVERTED rec_text1, 0x101",
    "TAKT_DIVERTED rec_bytes, 0x300",
    ".global takt_record_copy",
    //
    // On the stack: `Arguments`, then rdi, rsi, r9, r10, r11, rcx, the result, the rest of the function. The stack is aligned at calls.
    // A frame of its own, so that a stack trace meets the function with the event.
    "takt_record_diverted:",
    "push rbp",
    "mov rbp, rsp",
    "sub rsp, {SIZE} + 72",
    "mov [rsp + {SIZE}], rdi",
    "mov [rsp + {SIZE} + 8], rsi",
    "mov [rsp + {SIZE} + 16], r9",
    "mov [rsp + {SIZE} + 24], r10",
    "mov [rsp + {SIZE} + 32], r11",
    "mov [rsp + {SIZE} + 40], rcx",
    "mov [rsp + {SIZE} + 56], rdx",
    "mov [rsp + {WORD}], ecx",
    "movzx r8d, al",
    "xor edx, edx",
    ".irp at, 0,8,16,24",
    "mov [rsp + {EXTRA} + \\at], rdx",
    ".endr",
    "mov [rsp + {TEXT}], rdx",
    "mov [rsp + {LEN}], rdx",
    "test ah, 3",
    "jz 3f",
    "mov [rsp + {TEXT}], rdi",
    "mov [rsp + {LEN}], rsi",
    "mov [rsp + {EXTRA}], r9d",
    "test ah, 2",
    "jz 4f",
    // No more than there is room for.
    "mov r8d, 8",
    "cmp r10, r8",
    "cmovb r8d, r10d",
    "1:",
    "cmp edx, r8d",
    "jae 4f",
    "mov eax, [r9 + 4 * rdx]",
    "mov [rsp + {EXTRA} + 4 * rdx], eax",
    "inc edx",
    "jmp 1b",
    "3:",
    "test ah, 8",
    "jz 2f",
    "mov [rsp + {EXTRA}], rdi",
    "jmp 4f",
    "2:",
    "test ah, 4",
    "jz 7f",
    "mov [rsp + {EXTRA}], esi",
    "mov [rsp + {EXTRA} + 4], r9d",
    "jmp 4f",
    "7:",
    "mov [rsp + {EXTRA}], edi",
    "mov [rsp + {EXTRA} + 4], esi",
    "mov [rsp + {EXTRA} + 8], r9d",
    "mov [rsp + {EXTRA} + 12], r10d",
    "4:",
    "mov [rsp + {NR}], r8d",
    "mov rdi, rsp",
    "call {before}",
    "mov [rsp + {SIZE} + 48], eax",
    "test al, 1",
    "jz 5f",
    "mov rdi, [rsp + {SIZE}]",
    "mov rsi, [rsp + {SIZE} + 8]",
    "mov r9, [rsp + {SIZE} + 16]",
    "mov r10, [rsp + {SIZE} + 24]",
    "mov rcx, [rsp + {SIZE} + 40]",
    "takt_record_copy:", // of the instruction that the jumps have replaced
    "mov r8, gs:[{POS}]",
    "call [rsp + {SIZE} + 56]",
    "5:",
    "mov edi, [rsp + {SIZE} + 48]",
    "test edi, -2",
    "jz 6f",
    "call {after}",
    "6:",
    "mov rdi, [rsp + {SIZE}]",
    "mov rsi, [rsp + {SIZE} + 8]",
    "mov r9, [rsp + {SIZE} + 16]",
    "mov r10, [rsp + {SIZE} + 24]",
    "mov r11, [rsp + {SIZE} + 32]",
    "leave",
    "ret",
    ".text",
    POS = const percpu::CONTROL + Word::Pos.offset() as usize,
    SIZE = const size_of::<Arguments>(),
    WORD = const offset_of!(Arguments, words),
    NR = const offset_of!(Arguments, nr),
    EXTRA = const offset_of!(Arguments, words) + 4,
    TEXT = const offset_of!(Arguments, text),
    LEN = const offset_of!(Arguments, len),
    before = sym before,
    after = sym after,
);

const _: () = assert!(
    size_of::<Arguments>() % 16 == 8,
    "the stack is aligned at calls"
);

unsafe extern "C" {
    static __records_start: Function;
    static __records_end: Function;
    static takt_record_copy: u8;
}

/// Has every record function ask the rules, or no longer.
#[inline(never)]
fn divert_records(text: &mut Writable, on: bool) {
    let (start, end) = (&raw const __records_start, &raw const __records_end);
    // SAFETY: the two stand around the table.
    for function in rolled(unsafe { between(start, end) }) {
        let place = function.place as usize;
        let diverted = branch(JUMP, place, function.diverted as usize);
        // SAFETY: the copy is in the text and never changes.
        let original = unsafe { code_at((&raw const takt_record_copy) as usize) };
        let code = if on { diverted } else { original };
        // SAFETY: a whole instruction, or the beginning of one whose rest was left as it was; the rest is the caller's duty.
        unsafe { text.write(place, code) };
    }
}

/// Has these functions asked and told of every record from now on, or, without any, no one.
pub(crate) fn divert(text: &mut Writable, to: Option<(Before, After)>) {
    if let Some((before, after)) = to {
        BEFORE.store(before as *mut (), Relaxed);
        AFTER.store(after as *mut (), Relaxed);
    }
    divert_records(text, to.is_some());
}

/// Called by the diverted record functions before a record.
extern "C" fn before(record: &Arguments) -> u32 {
    let before = BEFORE.load(Relaxed);
    // SAFETY: only a `Before` is stored there, before the functions are diverted.
    unsafe { core::mem::transmute::<*mut (), Before>(before)(record) }
}

/// Called by the diverted record functions after a record, or its refusal.
extern "C" fn after(result: u32) {
    let after = AFTER.load(Relaxed);
    // SAFETY: only an `After` is stored there, before the functions are diverted.
    unsafe { core::mem::transmute::<*mut (), After>(after)(result) };
}
