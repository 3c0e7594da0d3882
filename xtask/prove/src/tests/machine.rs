//! Executes the few instructions that [`Asm`](super::asm::Asm) knows, written without regard to the analysis.

use iced_x86::{FlowControl, Mnemonic, OpKind, Register};

use crate::image::Image;

/// Instructions with interrupts off, from the function at `ip` on until it returns, with these registers. `None` if that takes
/// too long.
pub(super) fn run(image: &Image, mut ip: u64, registers: [u32; 8]) -> Option<u64> {
    let mut registers = registers;
    let mut stack: Vec<u64> = Vec::new();
    let (mut zero, mut carry) = (false, false);
    let (mut is_off, mut shadow) = (false, false);
    let mut counted = 0;
    for _ in 0..100_000 {
        let it = &image.at(ip)?.it;
        counted += u64::from(is_off);
        if shadow {
            (is_off, shadow) = (false, false);
        }
        let nr = |register: Register| register.full_register().number();
        let second = |registers: &[u32; 8]| match it.op_kind(1) {
            OpKind::Register => registers[nr(it.op1_register())],
            _ => it.immediate32(),
        };
        let to = nr(it.op0_register()) & 7;
        let mut next = it.next_ip();
        match it.mnemonic() {
            Mnemonic::Cli => is_off = true,
            Mnemonic::Sti => shadow = true,
            Mnemonic::Nop => {}
            Mnemonic::Mov => registers[to] = second(&registers),
            Mnemonic::Add => {
                let (sum, over) = registers[to].overflowing_add(second(&registers));
                (registers[to], zero, carry) = (sum, sum == 0, over);
            }
            Mnemonic::Sub | Mnemonic::Cmp => {
                let (difference, under) = registers[to].overflowing_sub(second(&registers));
                (zero, carry) = (difference == 0, under);
                if it.mnemonic() == Mnemonic::Sub {
                    registers[to] = difference;
                }
            }
            Mnemonic::Dec => {
                registers[to] = registers[to].wrapping_sub(1);
                zero = registers[to] == 0;
            }
            Mnemonic::And | Mnemonic::Or | Mnemonic::Xor | Mnemonic::Test => {
                let (a, b) = (registers[to], second(&registers));
                let result = match it.mnemonic() {
                    Mnemonic::Or => a | b,
                    Mnemonic::Xor => a ^ b,
                    _ => a & b,
                };
                (zero, carry) = (result == 0, false);
                if it.mnemonic() != Mnemonic::Test {
                    registers[to] = result;
                }
            }
            Mnemonic::Push => stack.push(registers[to].into()),
            Mnemonic::Pop => registers[to] = stack.pop()? as u32,
            Mnemonic::Ret => match stack.pop() {
                Some(back) => next = back,
                None => return Some(counted),
            },
            Mnemonic::Call => {
                stack.push(next);
                next = it.near_branch_target();
            }
            Mnemonic::Jmp => next = it.near_branch_target(),
            Mnemonic::Je if zero => next = it.near_branch_target(),
            Mnemonic::Jne if !zero => next = it.near_branch_target(),
            Mnemonic::Jb if carry => next = it.near_branch_target(),
            Mnemonic::Jae if !carry => next = it.near_branch_target(),
            _ if it.flow_control() == FlowControl::ConditionalBranch => {}
            other => panic!("{other:?} is not executed here"),
        }
        ip = next;
    }
    None
}
