//! Functions and entries as a whole, and calls that block.

use super::asm::Asm;
use crate::config::Config;
use crate::explore::clock::{behind_guards, behind_switches};
use crate::explore::{Off, Refusal};
use crate::looked::Root;
use crate::marks::Marks;
use crate::prove::{Stretch, Whole, prove_wholes};

const EBX: u8 = 3;
const ESI: u8 = 6;
const JE: u8 = 4;
const JNE: u8 = 5;
/// Kinds of marks, as in `takt_kernel::arch::proof`.
const RESUMES: u32 = 1;
const RESUMED: u32 = 2;
const ROUNDS: u32 = 5;
const ENABLES: u32 = 18;
/// `jmp rax`
const JUMP: [u8; 2] = [0xff, 0xe0];
const RDTSC: [u8; 2] = [0x0f, 0x31];

fn found(asm: &mut Asm, root: impl Fn(u64) -> Root) -> Stretch {
    let roots = vec![("f".to_owned(), root(asm.address("f")))];
    let mut found = prove_wholes(&asm.image(), &Config::default(), roots).unwrap();
    let Some(Whole { stretch, .. }) = found.pop() else {
        panic!("nothing is found")
    };
    assert_eq!(stretch.off, Off::Nothing);
    stretch
}

/// Up to where it comes back, and up to a switch.
fn bounds(it: &Stretch) -> [Option<u64>; 2] {
    assert!(it.refused.is_none(), "{it:?}");
    [&it.same, &it.thread].map(|it| it.as_ref().map(|it| it.bound))
}

fn switch(asm: &mut Asm) -> &mut Asm {
    asm.mark(RESUMES, "").bytes(&JUMP).mark(RESUMED, "").nops(1)
}

#[test]
fn all_of_a_function_is_counted_whatever_is_off() {
    let mut asm = Asm::default();
    asm.function("f").nops(2).cli().nops(3).sti().nops(4);
    asm.test(ESI).jcc(JE, "end").call("g").place("end").ret();
    asm.function("g").nops(5).ret();
    let it = found(&mut asm, Root::Whole);
    assert_eq!(bounds(&it), [Some(2 + 1 + 3 + 1 + 4 + 2 + 7 + 1), None]);
}

#[test]
fn a_switch_ends_what_is_counted() {
    let mut asm = Asm::default();
    asm.function("f").nops(2).test(ESI).jcc(JE, "stays");
    switch(asm.cli().nops(7)).nops(90).sti().ret();
    asm.place("stays").nops(3).ret();
    for root in [Root::Whole, Root::Call] {
        let it = found(&mut asm, root);
        assert_eq!(bounds(&it), [Some(4 + 3 + 1), Some(4 + 1 + 7 + 1)]);
    }
}

/// `f` decides, and those who call it carry the switch out where it has left interrupts off.
fn halves() -> Asm {
    let mut asm = Asm::default();
    asm.function("f").nops(2).cli().test(ESI).jcc(JE, "stays");
    asm.mov(0, 1).ret();
    asm.place("stays").nops(20).mov(0, 0).sti().ret();
    for (name, nr) in [("one", 4), ("two", 9)] {
        let none = format!("{name} none");
        asm.function(name).nops(30).call("f").test(0).jcc(JE, &none);
        switch(asm.nops(nr)).sti().place(&none).nops(50).ret();
    }
    asm
}

#[test]
fn who_calls_carries_the_switch_out() {
    let it = found(&mut halves(), Root::Call);
    let first = 2 + 1 + 2 + 2;
    // What stays ends with the call.
    assert_eq!(
        bounds(&it),
        [Some(2 + 1 + 2 + 20 + 3), Some(first + 2 + 9 + 1)]
    );
    // As a function it comes back.
    let it = found(&mut halves(), Root::Whole);
    assert_eq!(bounds(&it), [Some(2 + 1 + 2 + 20 + 3), None]);
}

#[test]
fn a_call_that_anyone_may_make_by_its_address_is_refused() {
    let mut asm = halves();
    asm.function("h").lea_rax("f").ret();
    let it = found(&mut asm, Root::Call);
    assert_eq!(it.refused.unwrap().why, Refusal::Caller);
}

#[test]
fn a_loop_with_interrupts_on_has_to_be_counted() {
    let with = |mark: bool| {
        let mut asm = Asm::default();
        asm.function("f").place("on").cli().nops(1).sti().nops(1);
        if mark {
            asm.mark(ROUNDS, "turns");
        }
        asm.nops(1).dec(EBX).jcc(JNE, "on");
        switch(&mut asm).ret();
        found(&mut asm, Root::Call)
    };
    assert_eq!(with(false).refused.unwrap().why, Refusal::Loop);
    let thread = with(true).thread.unwrap();
    assert_eq!((thread.bound, thread.grows[0].each), (4 + 3 + 1, 4 + 3));
}

#[test]
fn an_interrupt_ends_with_its_return() {
    let mut asm = Asm::default();
    // iretq
    asm.function("f").nops(6).bytes(&[0x48, 0xcf]);
    assert_eq!(bounds(&found(&mut asm, Root::Whole)), [Some(7), None]);
}

#[test]
fn a_thread_that_goes_on_comes_to_its_functions_clock() {
    let mut asm = Asm::default();
    asm.function("f").cli().nops(2);
    switch(&mut asm).nops(1).sti().nops(4);
    // Another function's clock is not the one.
    asm.call("g").bytes(&RDTSC).nops(30).ret();
    asm.function("g").bytes(&RDTSC).nops(1).ret();
    let image = asm.image();
    let marks = Marks::new(&image, &Config::default()).unwrap();
    let [behind] = behind_switches(&image, &marks, asm.address("f"))[..] else {
        panic!("there is one switch")
    };
    // Not its first instruction, which loads the stack pointer.
    let it = found(&mut asm, |_| Root::BehindSwitch(behind));
    assert_eq!(bounds(&it), [Some(1 + 1 + 4 + 1 + 3 + 1), None]);
}

#[test]
fn from_a_guard_to_the_switch_that_is_due_only_that_branch_counts() {
    let mut asm = Asm::default();
    asm.function("f").mark(ENABLES, "").nops(1).jcc(JE, "slow");
    asm.place("on").test(EBX).jcc(JNE, "on").ret();
    asm.place("slow").nops(3).call("g").jmp("on");
    asm.function("g").nops(2).cli().nops(20).sti().ret();
    let image = asm.image();
    let marks = Marks::new(&image, &Config::default()).unwrap();
    let [behind] = behind_guards(&image, &marks)[..] else {
        panic!("there is one guard")
    };
    let it = found(&mut asm, |_| Root::BehindGuard(behind));
    assert_eq!(bounds(&it), [Some(3 + 1 + 2 + 1), None]);
}
