//! Code of which the sources say something.

use super::asm::Asm;
use crate::config::Config;
use crate::explore::Refusal;
use crate::looked::All;
use crate::prove::{Proof, Stretch, prove_anew, prove_image};
use crate::tests::machine::run;

const EBX: u8 = 3;
const ESI: u8 = 6;
const EDI: u8 = 7;
const JE: u8 = 4;
const JNE: u8 = 5;
/// Kinds of marks, as in `takt_kernel::arch::proof`.
const ROUNDS: u32 = 5;
const NOT_ALONE: u32 = 6;
const TARGETS: u32 = 7;
const GUARD_BEGINS: u32 = 9;
const GUARD_ENDS: u32 = 10;
const GUARDS_LEFT: u32 = 11;
const FLAGS_KEPT: u32 = 12;
const FLAGS_AGAIN: u32 = 13;
const APART: u32 = 14;
const NOT_NULL: u32 = 15;
const ONLY_WITH: u32 = 16;
const LOCK_TAKEN: u32 = 19;
const LOCK_WAITS: u32 = 20;
const LOCK_GIVEN: u32 = 21;

fn only(asm: &mut Asm) -> Stretch {
    let all = prove_image(&asm.image(), false).unwrap().stretches;
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().unwrap()
}

/// The bound of the only stretch, and what each round takes by its name.
fn bound(asm: &mut Asm) -> (u64, Vec<(String, u64)>) {
    let it = only(asm);
    assert!(it.refused.is_none(), "{it:?}");
    let grows = it.grows.into_iter().map(|it| (it.counts, it.each));
    (it.bound.unwrap(), grows.collect())
}

#[test]
fn a_loop_whose_rounds_are_counted_has_a_formula() {
    let mut asm = Asm::default();
    asm.function("f").cli().nops(2).place("on");
    asm.mark(ROUNDS, "turns").nops(3).test(ESI).jcc(JNE, "on");
    asm.nops(4).sti().ret();
    // To the first turn; from one to the next; from the last one on.
    assert_eq!(bound(&mut asm), (2 + 5 + 4 + 2, vec![("turns".into(), 5)]));
}

#[test]
fn a_way_without_a_round_may_be_the_longest() {
    let mut asm = Asm::default();
    asm.function("f")
        .cli()
        .test(ESI)
        .jcc(JE, "none")
        .place("on");
    asm.mark(ROUNDS, "turns").nops(3).test(ESI).jcc(JNE, "on");
    asm.sti().ret().place("none").nops(50).sti().ret();
    assert_eq!(bound(&mut asm), (2 + 50 + 2, vec![("turns".into(), 5)]));
}

#[test]
fn loops_that_count_the_same_do_so_together_and_others_apart() {
    let with = |second: &str| {
        let mut asm = Asm::default();
        asm.function("f").cli().place("on");
        asm.mark(ROUNDS, "turns").nops(3).test(ESI).jcc(JNE, "on");
        asm.place("again").mark(ROUNDS, second).nops(7);
        asm.test(EBX).jcc(JNE, "again").sti().ret();
        bound(&mut asm)
    };
    assert_eq!(with("turns"), (9 + 2, vec![("turns".into(), 9)]));
    let both = vec![("turns".into(), 5), ("others".into(), 9)];
    assert_eq!(with("others"), (9 + 2, both));
}

#[test]
fn a_loop_within_one_that_is_counted_has_to_be_counted_too() {
    let mut asm = Asm::default();
    asm.function("f").cli().place("on").mark(ROUNDS, "turns");
    asm.nops(1).place("inner").test(EBX).jcc(JNE, "inner");
    asm.test(ESI).jcc(JNE, "on").sti().ret();
    assert_eq!(only(&mut asm).refused.unwrap().why, Refusal::Loop);
}

#[test]
fn a_loop_around_one_that_is_counted_has_to_be_counted_too() {
    let mut asm = Asm::default();
    asm.function("f")
        .cli()
        .place("outer")
        .test(EDI)
        .jcc(JE, "past");
    asm.place("on").mark(ROUNDS, "turns").nops(1);
    asm.test(ESI).jcc(JNE, "on").place("past");
    asm.dec(EBX).jcc(JNE, "outer").sti().ret();
    // Past the turns it goes round without one.
    assert_eq!(only(&mut asm).refused.unwrap().why, Refusal::Loop);
}

#[test]
fn a_mark_in_no_loop_fails() {
    let mut asm = Asm::default();
    asm.function("f")
        .cli()
        .mark(ROUNDS, "turns")
        .nops(3)
        .sti()
        .ret();
    let failed = prove_image(&asm.image(), false).unwrap_err().to_string();
    assert!(failed.contains("turns"), "{failed}");
}

#[test]
fn who_goes_round_comes_out_or_was_not_there() {
    let mut asm = Asm::default();
    asm.function("f").cli().test(EBX).jcc(JE, "end").place("on");
    asm.mark(ROUNDS, "turns").nops(3).test(ESI).jcc(JNE, "on");
    asm.mark(NOT_ALONE, "nobody does")
        .nops(9)
        .place("end")
        .sti()
        .ret();
    assert_eq!(bound(&mut asm), (2 + 2, Vec::new()));
}

#[test]
fn on_one_cpu_nobody_waits_for_another() {
    let mut asm = Asm::default();
    asm.function("f")
        .cli()
        .place("on")
        .test(ESI)
        .jcc(JE, "free");
    asm.mark(NOT_ALONE, "it is free").nops(1).jmp("on");
    asm.place("free").nops(2).sti().ret();
    assert_eq!(bound(&mut asm), (2 + 2 + 2, Vec::new()));
}

/// The only stretch in a system of which that is known; or why that is refused.
fn known(asm: &mut Asm, words: &[&str]) -> Result<Stretch, String> {
    let config = Config::new(false, words.iter().map(|it| (*it).to_owned()));
    let proof = prove_anew(&asm.image(), &config.unwrap(), &All::default());
    let (proof, _) = proof.map_err(|it| it.to_string())?;
    assert_eq!(proof.stretches.len(), 1, "{:?}", proof.stretches);
    Ok(proof.stretches.into_iter().next().unwrap())
}

#[test]
fn a_formula_is_no_less_than_what_is_proved_of_each_number_of_rounds_and_that_is_exact() {
    let mut asm = Asm::default();
    asm.function("f")
        .cli()
        .test(EBX)
        .jcc(JE, "past")
        .place("on");
    asm.mark(ROUNDS, "turns").nops(3).test(EDI).jcc(JE, "short");
    asm.nops(7).place("short").dec(EBX).jcc(JNE, "on");
    asm.nops(4).place("past").sti().nops(1).ret();
    let (own, grows) = bound(&mut asm);
    let [(_, each)] = &grows[..] else {
        panic!("{grows:?}")
    };
    let (f, image) = (asm.address("f"), asm.image());
    for n in 0..8 {
        let exact = known(&mut asm, &[&format!("turns={n}")]).unwrap();
        assert!(
            exact.refused.is_none() && exact.grows.is_empty(),
            "{exact:?}"
        );
        let exact = exact.bound.unwrap();
        let met = run(&image, f, [0, 0, 0, n as u32, 0, 0, 0, 1]).unwrap();
        assert_eq!(exact, met, "{n} rounds");
        assert!(
            own + each * n >= exact,
            "{own} + {each} * {n} is below {exact}"
        );
    }
    let off = known(&mut asm, &["turns=off"]).unwrap();
    assert_eq!(off.bound, Some(2 + 2));
}

#[test]
fn a_part_that_a_system_does_not_have_is_left_out() {
    let mut asm = Asm::default();
    asm.function("f").cli().test(ESI).jcc(JE, "end");
    asm.mark(ONLY_WITH, "round robin").nops(9).place("end");
    asm.sti().ret();
    let all = known(&mut asm, &["round robin=any"]).unwrap().bound;
    let less = known(&mut asm, &["round robin=off"]).unwrap().bound;
    assert_eq!((all, less), (Some(2 + 9 + 2), Some(2 + 2)));
    for (word, why) in [
        ("round robins=off", "round robin"),
        ("round robin=3", "does not count"),
        ("round robin=on", "always so"),
    ] {
        let refused = known(&mut asm, &[word]).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    assert!(Config::new(false, ["round robin".to_owned()]).is_err());
}

#[test]
fn a_place_that_others_come_to_by_a_key_is_not_left_out_while_that_may_be_on() {
    let mut asm = Asm::default();
    asm.function("f").cli().test(EBX).jcc(JE, "end");
    asm.mark(ONLY_WITH, "round robin|#20").nops(9).place("end");
    asm.sti().ret();
    let bound = |asm: &mut Asm, words: &[&str]| known(asm, words).unwrap().bound;
    assert_eq!(bound(&mut asm, &["round robin=off"]), Some(2 + 2));
    assert_eq!(
        bound(&mut asm, &["round robin=off", "#20=off"]),
        Some(2 + 2)
    );
    for on in ["#20=on", "#20=any"] {
        let all = bound(&mut asm, &["round robin=off", on]);
        assert_eq!(all, Some(2 + 9 + 2));
    }
}

#[test]
fn a_call_that_the_sources_speak_of_comes_on_top() {
    let mut asm = Asm::default();
    // call rsi
    asm.function("f").cli().mark(TARGETS, "a timer's function");
    asm.nops(2).bytes(&[0xff, 0xd6]).sti().ret();
    let it = only(&mut asm);
    assert_eq!((it.bound, it.handlers), (Some(3 + 2), 1));
    // Behind a branch there may be none.
    let mut asm = Asm::default();
    asm.function("f").cli().mark(TARGETS, "a timer's function");
    asm.test(ESI)
        .jcc(JE, "out")
        .bytes(&[0xff, 0xd6])
        .place("out")
        .sti()
        .ret();
    assert_eq!(only(&mut asm).refused.unwrap().why, Refusal::Call);
}

#[test]
fn a_call_that_is_set_apart_comes_on_top() {
    let mut asm = Asm::default();
    asm.function("f").cli().mark(APART, "the rest").nops(2);
    asm.call("g").sti().ret();
    // A loop without a bound.
    asm.function("g").place("on").nops(1).test(ESI);
    asm.jcc(JNE, "on").ret();
    let it = only(&mut asm);
    assert_eq!((it.bound, it.handlers), (Some(3 + 2), 1));
    // It is not said of another kind of call.
    let mut asm = Asm::default();
    asm.function("f").cli().mark(APART, "the rest");
    asm.bytes(&[0xff, 0xd6]).sti().ret();
    assert_eq!(only(&mut asm).refused.unwrap().why, Refusal::Call);
}

#[test]
fn a_word_that_is_told_not_to_be_null_is_none() {
    let with = |is_marked: bool| {
        let mut asm = Asm::default();
        asm.function("f").cli();
        if is_marked {
            asm.mark(NOT_NULL, "rsi");
        }
        // test rsi, rsi
        asm.bytes(&[0x48, 0x85, 0xf6]).jcc(JNE, "some");
        asm.nops(9).place("some").sti().ret();
        bound(&mut asm).0
    };
    assert_eq!((with(true), with(false)), (2 + 2, 2 + 9 + 2));
}

#[test]
fn the_last_guard_enables_interrupts() {
    let with = |nested: bool| {
        let mut asm = Asm::default();
        asm.function("f").cli().mark(GUARD_BEGINS, "").nops(1);
        if nested {
            asm.mark(GUARD_BEGINS, "")
                .nops(1)
                .mark(GUARD_ENDS, "")
                .nops(1);
            // They stay off.
            asm.test(EBX)
                .jcc(JE, "on")
                .mark(GUARDS_LEFT, "")
                .place("on");
        }
        asm.mark(GUARD_ENDS, "").test(ESI).jcc(JE, "last");
        asm.mark(GUARDS_LEFT, "")
            .nops(90)
            .ret()
            .place("last")
            .sti()
            .ret();
        only(&mut asm)
    };
    assert_eq!(with(false).bound, Some(1 + 2 + 2));
    assert_eq!(with(true).bound, Some(5 + 2 + 2));
}

#[test]
fn flags_that_were_kept_are_there_again() {
    let with = |is_marked: bool| {
        let mut asm = Asm::default();
        // pushfq; pop rcx; cli
        asm.function("f").pushfq().pop(1).cli();
        if is_marked {
            asm.mark(FLAGS_KEPT, "rcx");
        }
        // mov [rdi], rcx; mov rdx, [rdi]; push rdx; popfq
        asm.bytes(&[0x48, 0x89, 0x0f, 0x48, 0x8b, 0x17]);
        if is_marked {
            asm.mark(FLAGS_AGAIN, "rdx");
        }
        asm.push(2).popfq().ret();
        only(&mut asm)
    };
    assert_eq!(with(true).bound, Some(4));
    assert_eq!(with(false).refused.unwrap().why, Refusal::Flags);
}

/// All of the code in a system of which that is known.
fn proved(asm: &mut Asm, words: &[&str]) -> Proof {
    let config = Config::new(false, words.iter().map(|it| (*it).to_owned()));
    let proof = prove_anew(&asm.image(), &config.unwrap(), &All::default());
    proof.unwrap().0
}

#[test]
fn with_several_cpus_waits_for_locks_come_on_top_and_the_longest_hold_is_known() {
    let mut asm = Asm::default();
    let lock = |asm: &mut Asm, name: &str, held: usize| {
        let (look, free) = (format!("{name} look"), format!("{name} free"));
        asm.mark(LOCK_TAKEN, "").nops(1).place(&look);
        asm.test(ESI).jcc(JE, &free).mark(LOCK_WAITS, "").nops(1);
        asm.jmp(&look).place(&free).nops(held);
        asm.mark(LOCK_GIVEN, "").nops(1);
    };
    asm.function("f").cli();
    lock(&mut asm, "one", 5);
    asm.nops(3);
    lock(&mut asm, "two", 9);
    asm.sti().nops(1).ret();
    let proof = proved(&mut asm, &["cpus=3"]);
    let [it] = &proof.stretches[..] else {
        panic!("{proof:?}")
    };
    let each = |held: u64| 1 + 2 + held + 1;
    assert_eq!((it.bound, it.waits), (Some(each(5) + 3 + each(9) + 2), 2));
    // From behind where it is taken.
    assert_eq!((proof.cpus, proof.hold.unwrap().bound), (3, each(9) - 1));
}

#[test]
fn a_lock_that_is_held_for_who_knows_how_long_has_no_hold() {
    let mut asm = Asm::default();
    asm.function("f").cli().mark(LOCK_TAKEN, "").nops(1);
    asm.place("on").test(ESI).jcc(JNE, "on");
    asm.mark(LOCK_GIVEN, "").nops(1).sti().nops(1).ret();
    let proof = proved(&mut asm, &["cpus=2"]);
    assert_eq!(proof.hold_refused.unwrap().why, Refusal::Loop);
    assert!(proof.hold.is_none());
}

#[test]
fn with_several_cpus_others_are_waited_for_and_interfere() {
    let wait = || {
        let mut asm = Asm::default();
        asm.function("f")
            .cli()
            .place("on")
            .test(ESI)
            .jcc(JE, "free");
        asm.mark(NOT_ALONE, "it is free").nops(1).jmp("on");
        asm.place("free").nops(2).sti().ret();
        asm
    };
    let it = &proved(&mut wait(), &["cpus=2"]).stretches[0];
    // To the first time, and from the last one on.
    assert_eq!(it.bound, Some((1 + 2 - 1) + 2 + 2 + 2 + 2));
    let grows = [(&*it.grows[0].counts, it.grows[0].each)];
    assert_eq!(grows, [("times that it is not so: it is free", 4)]);
    // mov eax, [rdi]; lock cmpxchg [rdi], ecx: on one CPU it is what was read.
    let mut asm = Asm::default();
    asm.function("f").cli().bytes(&[0x8b, 0x07]);
    asm.bytes(&[0xf0, 0x0f, 0xb1, 0x0f]).jcc(JE, "same").nops(7);
    asm.place("same").sti().ret();
    let bound = |asm: &mut Asm, words: &[&str]| proved(asm, words).stretches[0].bound;
    assert_eq!(bound(&mut asm, &["cpus=1"]), Some(3 + 2));
    assert_eq!(bound(&mut asm, &["cpus=2"]), Some(3 + 7 + 2));
    for word in ["cpus=0", "cpus=any"] {
        assert!(Config::new(false, [word.to_owned()]).is_err());
    }
}

#[test]
fn what_was_loaded_may_go_through_another_register() {
    let with = |between: &[u8]| {
        let mut asm = Asm::default();
        // mov rcx, [rdi]; mov rax, [rdi + 8]; cmp rax, rcx; …; mov rax, rcx; lock cmpxchg [rdi], rdx
        asm.function("f").cli().bytes(&[0x48, 0x8b, 0x0f]);
        asm.bytes(&[0x48, 0x8b, 0x47, 8, 0x48, 0x39, 0xc8]);
        asm.bytes(between).bytes(&[0x48, 0x89, 0xc8]);
        asm.bytes(&[0xf0, 0x48, 0x0f, 0xb1, 0x17]);
        asm.jcc(JE, "same").nops(50).place("same").sti().ret();
        bound(&mut asm).0
    };
    let same = 6 + 2;
    assert_eq!(with(&[]), same);
    // mov [rsi], rdx; inc rcx; inc rdi
    for other in [
        &[0x48, 0x89, 0x16][..],
        &[0x48, 0xff, 0xc1],
        &[0x48, 0xff, 0xc7],
    ] {
        assert_eq!(with(other), same + 1 + 50);
    }
}
