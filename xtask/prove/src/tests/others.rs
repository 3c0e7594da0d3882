//! Stretches with preemption off, and ways to another thread.

use super::asm::Asm;
use crate::config::Config;
use crate::explore::{Off, Refusal};
use crate::longest::Goal;
use crate::looked::All;
use crate::prove::{Stretch, prove_all, prove_anew};

const EBX: u8 = 3;
const ESI: u8 = 6;
const JE: u8 = 4;
const JNE: u8 = 5;
/// Kinds of marks, as in `takt_kernel::arch::proof`.
const RESUMES: u32 = 1;
const RESUMED: u32 = 2;
const ASKS: u32 = 22;
const PREEMPTED: u32 = 23;
const DISABLES: u32 = 17;
const ENABLES: u32 = 18;

fn disable(asm: &mut Asm) -> &mut Asm {
    asm.mark(DISABLES, "").nops(1)
}

fn enable(asm: &mut Asm) -> &mut Asm {
    asm.mark(ENABLES, "").nops(1)
}

/// The stretches with preemption off.
fn of(asm: &mut Asm) -> Vec<Stretch> {
    let proof = prove_all(&asm.image(), &Config::default()).unwrap();
    let all = proof.stretches.into_iter();
    all.filter(|it| it.off == Off::Preemption).collect()
}

fn bounds(asm: &mut Asm) -> Vec<Option<u64>> {
    of(asm).iter().map(|it| it.bound).collect()
}

#[test]
fn with_preemption_off_calls_and_sections_count_whatever_interrupts_are() {
    let mut asm = Asm::default();
    asm.function("g").cli().nops(4).sti().nops(1).ret();
    asm.function("f").nops(3);
    disable(&mut asm).nops(2).call("g").cli().nops(1).sti();
    enable(&mut asm).nops(7).ret();
    // Behind the one that disables, up to and with the one that enables.
    assert_eq!(bounds(&mut asm), [Some(2 + 1 + 8 + 3 + 1)]);
}

#[test]
fn preemption_that_is_disabled_again_is_enabled_as_often() {
    let mut asm = Asm::default();
    asm.function("f");
    disable(&mut asm).test(ESI).jcc(JE, "once");
    disable(&mut asm).nops(5);
    enable(&mut asm).nops(3).place("once");
    enable(&mut asm).nops(9).ret();
    // Whoever begins within is not asked for.
    assert_eq!(bounds(&mut asm), [Some(2 + 1 + 5 + 1 + 3 + 1)]);
}

#[test]
fn who_comes_back_with_preemption_off_has_a_caller_who_enables_it() {
    let mut asm = Asm::default();
    asm.function("g");
    disable(&mut asm).nops(1).ret();
    asm.function("f").call("g").nops(6);
    enable(&mut asm).ret();
    assert_eq!(bounds(&mut asm), [Some(1 + 1 + 6 + 1)]);
}

#[test]
fn a_loop_with_preemption_off_has_to_have_a_bound() {
    let mut asm = Asm::default();
    asm.function("f");
    disable(&mut asm).place("on").dec(EBX).jcc(JNE, "on");
    enable(&mut asm).ret();
    let all = of(&mut asm);
    let [it] = &all[..] else { panic!("{all:?}") };
    assert_eq!(it.refused.unwrap().why, Refusal::Loop);
}

#[test]
fn of_ways_to_another_thread_the_longest_is_known_beside_the_longest_of_all() {
    let mut asm = Asm::default();
    asm.function("f").cli().test(ESI).jcc(JE, "stays").nops(3);
    // jmp rax
    asm.mark(RESUMES, "").bytes(&[0xff, 0xe0]);
    asm.place("stays").nops(20).sti().nops(1).ret();
    asm.function("other")
        .mark(RESUMED, "")
        .nops(5)
        .sti()
        .nops(1)
        .ret();
    let (_, all) = prove_anew(&asm.image(), &Config::default(), &All::default()).unwrap();
    let known = all.found.values().flat_map(|it| it.stretches.values());
    let known: Vec<_> = known.collect();
    let [it] = &known[..] else {
        panic!("{known:?}")
    };
    let own = |most: &Option<(crate::cost::Cost, Vec<u64>)>| most.as_ref().map(|it| it.0.own);
    assert_eq!(own(&it.most[Goal::End as usize]), Some(2 + 20 + 2));
    assert_eq!(
        own(&it.most[Goal::Thread as usize]),
        Some(2 + 3 + 1 + 5 + 2)
    );
}

#[test]
fn who_has_asked_goes_on_with_no_preempted_thread() {
    let bound = |asks: bool| {
        let mut asm = Asm::default();
        asm.function("f").cli().test(ESI);
        if asks {
            asm.mark(ASKS, "");
        }
        asm.jcc(JE, "preempted").nops(3);
        // jmp rax
        asm.mark(RESUMES, "").bytes(&[0xff, 0xe0]);
        asm.place("preempted").sti().nops(1).ret();
        asm.function("waited")
            .mark(RESUMED, "")
            .nops(5)
            .sti()
            .nops(1)
            .ret();
        asm.function("preempted_one")
            .mark(RESUMED, "")
            .mark(PREEMPTED, "")
            .nops(20)
            .sti()
            .nops(1)
            .ret();
        let proof = prove_all(&asm.image(), &Config::default()).unwrap();
        let mut stretches = proof.stretches.into_iter();
        stretches.find(|it| it.off == Off::Irqs).unwrap().bound
    };
    assert_eq!(bound(false), Some(2 + 3 + 1 + 20 + 2));
    assert_eq!(bound(true), Some(2 + 3 + 1 + 5 + 2));
}
