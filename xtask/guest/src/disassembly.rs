//! Instructions as text, and what an instruction is.

use std::ops::Range;

use iced_x86::{Code, Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter, Mnemonic};

use super::Elf;

/// Bits of the code.
const BITNESS: u32 = 64;

fn decode(code: &[u8], ip: u64) -> Instruction {
    Decoder::with_ip(BITNESS, code, ip, DecoderOptions::NONE).decode()
}

/// The instruction at an address in Intel's syntax, with the address that it jumps to or reads relative to itself; empty
/// where there is no code.
#[must_use]
pub fn text(elf: &Elf, ip: u64) -> String {
    let instruction = decode(elf.code_at(ip), ip);
    if instruction.code() == Code::INVALID {
        return String::new();
    }
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    options.set_branch_leading_zeros(false);
    options.set_rip_relative_addresses(true);
    let mut text = String::new();
    formatter.format(&instruction, &mut text);
    text
}

/// Where the code of these addresses branches to: the targets of its calls and jumps, but for those that are known only when
/// it runs.
#[must_use]
pub fn branch_targets(elf: &Elf, range: Range<u64>) -> Vec<u64> {
    let targets = instructions(elf, range).filter_map(|it| {
        let target = it.near_branch_target();
        (target != 0).then_some(target)
    });
    targets.collect()
}

/// Where in the code of these addresses there are instructions with a `lock` prefix.
#[must_use]
pub fn locked(elf: &Elf, range: Range<u64>) -> Vec<u64> {
    let with_prefix = instructions(elf, range).filter(Instruction::has_lock_prefix);
    with_prefix.map(|it| it.ip()).collect()
}

fn instructions(elf: &Elf, range: Range<u64>) -> impl Iterator<Item = Instruction> {
    let code = elf.code_at(range.start);
    let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
    let code = code.get(..len).unwrap_or(code);
    Decoder::with_ip(BITNESS, code, range.start, DecoderOptions::NONE).into_iter()
}

#[rustfmt::skip]
fn is_of_string(mnemonic: Mnemonic) -> bool {
    use Mnemonic::*;
    matches!(
        mnemonic,
        Movsb | Movsw | Movsd | Movsq
            | Stosb | Stosw | Stosd | Stosq
            | Lodsb | Lodsw | Lodsd | Lodsq
            | Cmpsb | Cmpsw | Cmpsd | Cmpsq
            | Scasb | Scasw | Scasd | Scasq
            | Insb | Insw | Insd
            | Outsb | Outsw | Outsd
    )
}

/// Whether an instruction may be executed several times in a row: a string instruction with a prefix `rep` or `repne`, or a
/// jump to itself.
#[must_use]
pub fn repeats_itself(code: &[u8], ip: u64) -> bool {
    let it = decode(code, ip);
    // Where such a prefix is a part of another instruction's code, the decoder does not call it one.
    let is_repeated = it.has_rep_prefix() || it.has_repne_prefix();
    is_of_string(it.mnemonic()) && is_repeated || it.near_branch_target() == ip && ip != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_itself() {
        for code in [
            &[0xf3, 0xa4][..],
            &[0xf3, 0x48, 0xa5],
            &[0xf2, 0xae],
            &[0xeb, 0xfe],
            &[0x74, 0xfe],
            &[0xe9, 0xfb, 0xff, 0xff, 0xff],
        ] {
            assert!(repeats_itself(code, 0x1000), "{code:x?}");
        }
        for code in [
            &[0x90][..],
            // rep ret, pause, popcnt: the prefix repeats nothing.
            &[0xf3, 0xc3],
            &[0xf3, 0x90],
            &[0xf3, 0x0f, 0xb8, 0xc0],
            // movsd xmm0, xmm1
            &[0xf2, 0x0f, 0x10, 0xc1],
            &[0xa4],
            &[0xeb, 0x00],
            &[],
        ] {
            assert!(!repeats_itself(code, 0x1000), "{code:x?}");
        }
    }

    #[test]
    fn an_instruction_is_readable() {
        let elf = Elf::open(&std::env::current_exe().unwrap()).unwrap();
        let main = elf.symbol("main").unwrap();
        assert!(!text(&elf, main).is_empty());
        assert_eq!(text(&elf, 1), "");
    }
}
