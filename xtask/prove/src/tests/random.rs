//! Random programs of loops, branches and calls: none runs longer than its bound, and most take it in one of their runs.

use super::asm::Asm;
use super::machine::run;
use crate::prove::prove_image;

/// Programs that are tried; `TAKT_PROVE_PROGRAMS` has another number.
const PROGRAMS: u64 = 10_000;

/// A generator of numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let it = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let it = (it ^ it >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        it ^ it >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A program under construction. What is not known are ebx, ebp, esi and edi; loops count in ecx and edx.
struct Program {
    random: Random,
    asm: Asm,
    nr_places: u32,
    nr_functions: u64,
    /// Whether a branch went by what is not known.
    is_open: bool,
    may_ask: bool,
}

impl Program {
    fn place(&mut self) -> String {
        self.nr_places += 1;
        format!("at{}", self.nr_places)
    }

    fn block(&mut self, depth: u32) {
        for _ in 0..=self.random.below(3) {
            match self.random.below(if depth == 0 { 4 } else { 9 }) {
                0 => {
                    let nr = self.random.below(5) as usize;
                    self.asm.nops(nr);
                }
                1 => {
                    let value = self.random.below(6) as u32;
                    self.asm.mov(0, value);
                }
                2 | 3 => {
                    let what = [0, 1, 4, 5, 6][self.random.below(5) as usize];
                    let register = self.register();
                    let value = self.random.below(9) as u32;
                    self.asm.arithmetic(what, register, value);
                }
                4 | 5 => self.branch(depth),
                6 => self.repeat(depth),
                7 if self.nr_functions > 0 => {
                    let nr = self.random.below(self.nr_functions);
                    self.asm
                        .push(1)
                        .push(2)
                        .call(&format!("f{nr}"))
                        .pop(2)
                        .pop(1);
                }
                _ => {
                    self.asm.push(0);
                    self.block(depth - 1);
                    self.asm.pop(0);
                }
            }
        }
    }

    /// eax, or one that is not known.
    fn register(&mut self) -> u8 {
        match self.may_ask && self.random.below(2) == 0 {
            true => [3, 6, 7][self.random.below(3) as usize],
            false => 0,
        }
    }

    fn branch(&mut self, depth: u32) {
        let (other, end) = (self.place(), self.place());
        let register = self.register();
        self.is_open |= register != 0;
        let value = self.random.below(6) as u32;
        let condition = [2, 3, 4, 5][self.random.below(4) as usize];
        match self.random.below(3) {
            0 => self.asm.test(register),
            _ => self.asm.arithmetic(7, register, value),
        };
        self.asm.jcc(condition, &other);
        self.block(depth - 1);
        self.asm.jmp(&end).place(&other);
        self.block(depth - 1);
        self.asm.place(&end);
    }

    fn repeat(&mut self, depth: u32) {
        let on = self.place();
        let counter = 1 + (depth % 2) as u8;
        let rounds = 1 + self.random.below(4) as u32;
        self.asm.push(counter).mov(counter, rounds).place(&on);
        self.block(depth - 1);
        self.asm.dec(counter).jcc(5, &on).pop(counter);
    }
}

fn program(seed: u64) -> (Asm, u64, bool) {
    let mut program = Program {
        may_ask: !seed.is_multiple_of(3),
        random: Random(seed),
        asm: Asm::default(),
        nr_places: 0,
        nr_functions: 0,
        is_open: false,
    };
    let nr = program.random.below(3);
    for nr in 0..nr {
        // ebx is the caller's.
        program.asm.function(&format!("f{nr}")).push(3);
        program.block(2);
        program.asm.pop(3).ret();
        program.nr_functions += 1;
    }
    // What eax is at the beginning is not known either.
    program.asm.function("main");
    let main = program.asm.address("main");
    program.asm.mov(0, 1).cli();
    program.block(3);
    program.asm.sti().nops(1).ret();
    let is_open = program.is_open;
    (program.asm, main, is_open)
}

#[test]
fn no_random_program_runs_longer_than_its_bound() {
    let programs = std::env::var("TAKT_PROVE_PROGRAMS")
        .ok()
        .and_then(|it| it.parse().ok());
    let (mut nr_exact, mut nr_loose, mut nr_refused) = (0, 0, 0);
    let programs = programs.unwrap_or(PROGRAMS);
    for seed in 0..programs {
        let (mut asm, main, is_open) = program(seed);
        let image = asm.image();
        let proof = prove_image(&image, false).unwrap();
        let [stretch] = &proof.stretches[..] else {
            panic!("program {seed}: {:?}", proof.stretches)
        };
        // Where there are too many states at one place they are joined, and then a loop has no end.
        let Some(bound) = stretch.bound else {
            assert!(stretch.refused.is_some(), "program {seed}");
            nr_refused += 1;
            continue;
        };
        let mut random = Random(!seed);
        let mut most = 0;
        for _ in 0..50 {
            let registers = std::array::from_fn(|_| match random.below(3) {
                0 => random.next() as u32,
                _ => random.below(8) as u32,
            });
            let ran = run(&image, main, registers).unwrap();
            assert!(
                ran <= bound,
                "program {seed} with {registers:x?}: {ran} above {bound}"
            );
            most = most.max(ran);
        }
        match most == bound {
            true => nr_exact += 1,
            // Joined states, again.
            false if !is_open => nr_loose += 1,
            false => {}
        }
    }
    assert!(
        nr_exact * 2 > programs,
        "{nr_exact} of {programs} are exact"
    );
    assert!(
        nr_loose * 50 <= programs,
        "{nr_loose} of {programs} are loose"
    );
    assert!(
        nr_refused * 50 <= programs,
        "{nr_refused} of {programs} are refused"
    );
}
