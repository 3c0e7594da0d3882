//! Code with known bounds.

use super::asm::Asm;
use crate::explore::Refusal;
use crate::prove::{Stretch, prove_image};

const EAX: u8 = 0;
const ECX: u8 = 1;
const EDX: u8 = 2;
const EBX: u8 = 3;
const ESI: u8 = 6;
const JE: u8 = 4;
const JA: u8 = 7;
const JNE: u8 = 5;

fn stretches(asm: &mut Asm) -> Vec<Stretch> {
    prove_image(&asm.image(), false).unwrap().stretches
}

/// The bound of the only stretch.
fn bound(asm: &mut Asm) -> u64 {
    let all = stretches(asm);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].refused.is_none(), "{all:?}");
    all[0].bound.unwrap()
}

fn refusal(asm: &mut Asm) -> Refusal {
    let all = stretches(asm);
    assert!(all.iter().all(|it| it.bound.is_none()), "{all:?}");
    all[0].refused.unwrap().why
}

#[test]
fn a_straight_line_and_the_instruction_behind_sti() {
    let mut asm = Asm::default();
    asm.function("f").cli().nops(5).sti().nops(1).ret();
    // Five, sti, and the one in its shadow.
    assert_eq!(bound(&mut asm), 7);
}

#[test]
fn the_longer_branch_counts() {
    let mut asm = Asm::default();
    asm.function("f")
        .cli()
        .test(ESI)
        .jcc(JE, "short")
        .nops(10)
        .place("short")
        .nops(1)
        .sti()
        .ret();
    assert_eq!(bound(&mut asm), 2 + 10 + 1 + 2);
}

#[test]
fn of_correlated_branches_one_is_taken() {
    let mut asm = Asm::default();
    // mov esi, esi: so that all of rsi is what is looked at.
    asm.function("f").bytes(&[0x89, 0xf6]).cli();
    asm.test(ESI).jcc(JE, "one").nops(10).place("one");
    asm.test(ESI)
        .jcc(JNE, "two")
        .nops(7)
        .place("two")
        .sti()
        .ret();
    assert_eq!(bound(&mut asm), 2 + 10 + 2 + 2);
}

#[test]
fn flags_that_are_kept_are_the_same() {
    // With interrupts on it is a stretch up to popfq; what is called with interrupts off is a part of its caller's.
    let mut asm = Asm::default();
    asm.function("f").pushfq().cli().nops(3).popfq().ret();
    asm.function("h").call("f").ret();
    asm.function("g")
        .cli()
        .nops(2)
        .call("f")
        .nops(4)
        .sti()
        .nops(1)
        .ret();
    let all = stretches(&mut asm);
    let bounds: Vec<_> = all.iter().map(|it| it.bound).collect();
    assert_eq!(bounds, [Some(4), Some(2 + 1 + 7 + 4 + 2)], "{all:?}");
    // Where nobody calls it with interrupts on, it begins no stretch.
    let mut asm = Asm::default();
    asm.function("f").pushfq().cli().nops(3).popfq().ret();
    asm.function("g").cli().call("f").sti().ret();
    assert_eq!(bound(&mut asm), 1 + 7 + 2);
}

#[test]
fn counted_loops_nest() {
    let mut asm = Asm::default();
    asm.function("f")
        .cli()
        .mov(ECX, 3)
        .place("outer")
        .mov(EDX, 4);
    asm.place("inner").nops(2).dec(EDX).jcc(JNE, "inner");
    asm.dec(ECX).jcc(JNE, "outer").sti().ret();
    assert_eq!(bound(&mut asm), 1 + 3 * (1 + 4 * 4 + 2) + 2);
}

#[test]
fn a_loop_without_a_bound_is_refused() {
    let mut asm = Asm::default();
    asm.function("f")
        .cli()
        .place("on")
        .nops(1)
        .dec(ESI)
        .jcc(JNE, "on")
        .sti()
        .ret();
    assert_eq!(refusal(&mut asm), Refusal::Loop);
    // By a counter that grows without being looked at, too.
    let mut asm = Asm::default();
    asm.function("f")
        .cli()
        .mov(ECX, 0)
        .place("on")
        .arithmetic(0, ECX, 1)
        .dec(ESI)
        .jcc(JNE, "on")
        .sti()
        .ret();
    assert_eq!(refusal(&mut asm), Refusal::Loop);
}

#[test]
fn early_returns_and_tail_calls() {
    let mut asm = Asm::default();
    asm.function("early")
        .test(ESI)
        .jcc(JE, "out")
        .nops(6)
        .place("out")
        .ret();
    asm.function("tail").nops(2).jmp("early");
    asm.function("f")
        .cli()
        .call("tail")
        .call("early")
        .sti()
        .ret();
    assert_eq!(bound(&mut asm), 1 + 3 + 9 + 1 + 9 + 2);
}

#[test]
fn recursion_is_refused() {
    let mut asm = Asm::default();
    asm.function("again")
        .dec(ESI)
        .jcc(JE, "out")
        .call("again")
        .place("out")
        .ret();
    asm.function("f").cli().call("again").sti().ret();
    assert_eq!(refusal(&mut asm), Refusal::Recursion);
}

#[test]
fn an_indirect_call_is_refused_unless_it_is_known_where() {
    let mut asm = Asm::default();
    asm.function("f").cli().bytes(&[0xff, 0xd6]).sti().ret();
    assert_eq!(refusal(&mut asm), Refusal::Call);
    let mut asm = Asm::default();
    asm.function("g").nops(3).ret();
    asm.function("f")
        .cli()
        .lea_rax("g")
        .bytes(&[0xff, 0xd0])
        .sti()
        .ret();
    assert_eq!(bound(&mut asm), 2 + 4 + 2);
}

#[test]
fn a_comparison_with_the_greatest_word_may_be_any() {
    let mut asm = Asm::default();
    // cmp rax, -1
    asm.function("f").cli().bytes(&[0x48, 0x83, 0xf8, 0xff]);
    asm.jcc(JA, "above").nops(9).place("above").sti().ret();
    assert_eq!(bound(&mut asm), 2 + 9 + 2);
}

#[test]
fn who_has_come_back_with_interrupts_off_goes_on_so_only() {
    let mut asm = Asm::default();
    asm.function("begin").cli().ret();
    asm.function("f").call("begin").nops(5).call("g").ret();
    // What is called there begins no stretch.
    asm.function("g").cli().nops(2).sti().ret();
    assert_eq!(bound(&mut asm), 1 + 5 + 1 + 1 + 2 + 2);
}

#[test]
fn what_is_called_may_come_back_with_interrupts_off() {
    let mut asm = Asm::default();
    asm.function("begin").cli().nops(2).ret();
    asm.function("f").call("begin").nops(5).sti().ret();
    assert_eq!(bound(&mut asm), 3 + 5 + 2);
    // Where anybody may have called it, nothing is known of who goes on.
    let mut asm = Asm::default();
    asm.function("begin").cli().nops(2).ret();
    asm.function("f").lea_rax("begin").ret();
    assert_eq!(refusal(&mut asm), Refusal::Caller);
}

#[test]
fn what_a_pointer_may_have_overwritten_is_not_known() {
    // The counter lies on the stack, and its address is somewhere: `mov [rsi], rsp`, then a store to an address that is not known.
    let with = |escape: bool| {
        let mut asm = Asm::default();
        asm.function("f").cli().mov(EAX, 2).push(EAX);
        if escape {
            asm.bytes(&[0x48, 0x89, 0x26]);
        }
        // mov [rbx], rbx
        asm.bytes(&[0x48, 0x89, 0x1b]).pop(ECX);
        asm.place("on").nops(1).dec(ECX).jcc(JNE, "on").sti().ret();
        asm
    };
    assert_eq!(bound(&mut with(false)), 4 + 2 * 3 + 2);
    assert_eq!(refusal(&mut with(true)), Refusal::Loop);
}

#[test]
fn what_a_function_keeps_is_what_it_was_whatever_was_written() {
    // The function saves it where a pointer that is not known may lead: its own stack pointer has gone there.
    let with = |count: u8| {
        let mut asm = Asm::default();
        asm.function("g").push(count).bytes(&[0x48, 0x89, 0x26]);
        // mov [rdi], rdi
        asm.bytes(&[0x48, 0x89, 0x3f]).pop(count).ret();
        asm.function("f").cli().mov(count, 2).call("g");
        asm.place("on").dec(count).jcc(JNE, "on").sti().ret();
        asm
    };
    assert_eq!(bound(&mut with(EBX)), 2 + 5 + 2 * 2 + 2);
    assert_eq!(refusal(&mut with(ECX)), Refusal::Loop);
}

#[test]
fn who_returns_behind_sti_returns_with_interrupts_on() {
    let mut asm = Asm::default();
    asm.function("g").cli().nops(2).sti().ret();
    asm.function("f").call("g").nops(5).ret();
    assert_eq!(bound(&mut asm), 4);
    // Its address is used: whoever calls it goes on with interrupts on.
    let mut asm = Asm::default();
    asm.function("g").cli().nops(2).sti().ret();
    asm.function("f").lea_rax("g").ret();
    assert_eq!(bound(&mut asm), 4);
}

#[test]
fn one_more_instruction_is_one_more() {
    let with = |nr| {
        let mut asm = Asm::default();
        asm.function("f")
            .cli()
            .arithmetic(7, EBX, 5)
            .jcc(JE, "rare")
            .nops(3)
            .sti()
            .ret();
        asm.place("rare").nops(nr).sti().ret();
        bound(&mut asm)
    };
    assert_eq!(with(9) + 1, with(10));
}

#[test]
fn a_compare_and_swap_of_what_was_just_loaded_succeeds() {
    let with = |stores: bool| {
        let mut asm = Asm::default();
        asm.function("f").cli().place("again");
        // mov eax, [rsi]
        asm.bytes(&[0x8b, 0x06]);
        if stores {
            // mov [rbx], ecx: there, maybe.
            asm.bytes(&[0x89, 0x0b]);
        }
        // lock cmpxchg [rsi], ecx
        asm.bytes(&[0xf0, 0x0f, 0xb1, 0x0e]);
        asm.jcc(JNE, "again").sti().ret();
        asm
    };
    assert_eq!(bound(&mut with(false)), 3 + 2);
    assert_eq!(refusal(&mut with(true)), Refusal::Loop);
}

#[test]
fn a_loop_over_copies_of_a_word_that_was_compared_is_counted() {
    let mut asm = Asm::default();
    // mov rcx, [rsi]; mov rdx, rcx; cmp rcx, 4; ja out
    asm.function("f")
        .cli()
        .bytes(&[0x48, 0x8b, 0x0e, 0x48, 0x89, 0xca]);
    asm.bytes(&[0x48, 0x83, 0xf9, 0x04]).jcc(7, "out");
    // test rdx, rdx; je out; then as often as it says
    asm.bytes(&[0x48, 0x85, 0xd2]).jcc(JE, "out");
    asm.place("on")
        .nops(2)
        .bytes(&[0x48, 0xff, 0xca])
        .jcc(JNE, "on");
    asm.place("out").sti().ret();
    assert_eq!(bound(&mut asm), 6 + 4 * 4 + 2);
}

#[test]
fn a_compare_of_the_low_byte_says_nothing_of_the_rest() {
    let mut asm = Asm::default();
    // cmp cl, 3
    asm.function("f").bytes(&[0x80, 0xf9, 3]).jcc(JA, "out");
    asm.cli()
        .place("on")
        .dec(ECX)
        .jcc(JNE, "on")
        .sti()
        .place("out")
        .ret();
    assert_eq!(refusal(&mut asm), Refusal::Loop);
}

#[test]
fn what_is_refused_with_interrupts_on_hides_no_way_behind_it() {
    let mut asm = Asm::default();
    asm.function("f").test(ESI).jcc(JE, "short");
    // An instruction that is not known here: lgdt [rdi].
    asm.bytes(&[0x0f, 0x01, 0x17]).mov(ECX, 20).jmp("both");
    asm.place("short").mov(ECX, 2).place("both");
    asm.cli().place("on").dec(ECX).jcc(JNE, "on").sti().ret();
    let all = stretches(&mut asm);
    assert!(
        all.iter()
            .any(|it| it.bound.is_none() || it.bound >= Some(40)),
        "{all:?}"
    );
    // A repeated instruction takes as long as it likes there.
    let mut asm = Asm::default();
    asm.function("f").test(ESI).jcc(JE, "short");
    // mov ecx, esi; rep stosb
    asm.bytes(&[0x89, 0xf1, 0xf3, 0xaa])
        .mov(ECX, 20)
        .jmp("both");
    asm.place("short").mov(ECX, 2).place("both");
    asm.cli().place("on").dec(ECX).jcc(JNE, "on").sti().ret();
    assert_eq!(bound(&mut asm), 2 * 20 + 2);
}

#[test]
fn flags_that_are_not_known_are_refused_whatever_lies_behind_them() {
    let mut asm = Asm::default();
    // push rcx; push rdi
    asm.function("f").mov(ECX, 0x246).bytes(&[0x51, 0x57]);
    asm.popfq().nops(50).pop(ECX).ret();
    assert_eq!(refusal(&mut asm), Refusal::Flags);
}

/// The stretch that begins behind a place.
fn of<'s>(all: &'s [Stretch], asm: &Asm, place: &str) -> &'s Stretch {
    let at = asm.address(place);
    all.iter().find(|it| it.begin == at).unwrap()
}

#[test]
fn what_was_read_by_a_pointer_is_behind_no_null_pointer() {
    let with = |reads: &[u8]| {
        let mut asm = Asm::default();
        asm.function("f").cli().bytes(reads);
        // test rsi, rsi
        asm.bytes(&[0x48, 0x85, 0xf6]).jcc(JE, "null").sti().ret();
        asm.place("null").nops(20).sti().ret();
        bound(&mut asm)
    };
    // mov eax, [rsi + 8], lea rax, [rsi + 8], mov eax, [rsi + 0x1000]
    assert_eq!(with(&[0x8b, 0x46, 8]), 3 + 2);
    assert_eq!(with(&[0x48, 0x8d, 0x46, 8]), 3 + 20 + 2);
    assert_eq!(with(&[0x8b, 0x86, 0, 0x10, 0, 0]), 3 + 20 + 2);
}

#[test]
fn behind_what_is_refused_nothing_is_known() {
    // call rsi, then another stretch: with a loop that ebx is to count, and without.
    let with = |loops: bool| {
        let mut asm = Asm::default();
        asm.function("f").mov(EBX, 3).place("first").cli();
        asm.bytes(&[0xff, 0xd6]).sti().nops(1).place("second").cli();
        if loops {
            asm.place("on").dec(EBX).jcc(JNE, "on");
        }
        asm.nops(4).sti().ret();
        let all = stretches(&mut asm);
        assert_eq!(of(&all, &asm, "first").refused.unwrap().why, Refusal::Call);
        let second = of(&all, &asm, "second");
        (second.bound, second.refused.map(|it| it.why))
    };
    assert_eq!(with(false), (Some(4 + 2), None));
    assert_eq!(with(true), (None, Some(Refusal::Loop)));
}

#[test]
fn what_is_lost_in_a_call_is_lost_in_its_caller() {
    let mut asm = Asm::default();
    // call rsi
    asm.function("g").bytes(&[0xff, 0xd6]).ret();
    asm.function("f").mov(EBX, 3).place("first").cli().call("g");
    asm.sti().nops(1).place("second").cli();
    asm.place("on").dec(EBX).jcc(JNE, "on").sti().ret();
    let all = stretches(&mut asm);
    assert_eq!(of(&all, &asm, "first").refused.unwrap().why, Refusal::Call);
    assert_eq!(of(&all, &asm, "second").refused.unwrap().why, Refusal::Loop);
}

#[test]
fn behind_a_repeated_instruction_it_goes_on() {
    let mut asm = Asm::default();
    // rep stosb
    asm.function("f").mov(EBX, 3).place("first").cli();
    asm.bytes(&[0xf3, 0xaa]).sti().nops(1).place("second").cli();
    asm.place("on").dec(EBX).jcc(JNE, "on").sti().ret();
    let all = stretches(&mut asm);
    let first = of(&all, &asm, "first");
    assert_eq!(first.refused.unwrap().why, Refusal::Repeat);
    assert_eq!(of(&all, &asm, "second").bound, Some(3 * 2 + 2));
}

#[test]
fn a_thread_begins_behind_sti_by_a_call_of_what_is_not_known() {
    let mut asm = Asm::default();
    // call rsi
    asm.function("f").cli().nops(2).sti().bytes(&[0xff, 0xd6]);
    asm.cli().nops(1).sti().ret();
    let all = stretches(&mut asm);
    assert_eq!(
        all.iter().map(|it| it.bound).collect::<Vec<_>>(),
        [Some(4), Some(3)]
    );
}
