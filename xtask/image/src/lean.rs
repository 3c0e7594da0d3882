//! What an image's interrupts keep: two SSE registers, or all of them and MXCSR.
//!
//! Code that may name more than `xmm0` and `xmm1` lies at the beginning of the text, up to a border (`takt_kernel::arch::sse`).
//! Interrupts keep all only of what they come upon there. As it is linked an image knows of no border and keeps all always:
//! [`make`] reads all code behind the border, and if none of it names more, writes the border into the file.

use std::fmt;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use takt_base::term::note;
use takt_guest::Elf;
use takt_guest::disassembly;

/// Records of where a comparison has its operand, and of the operand: the border. 4 bytes each.
const BORDER: &str = ".takt.border";
/// Records of the beginning and the end of a stretch that names registers only to keep them. 4 bytes each.
const KEEPS: &str = ".takt.keeps";
/// Where code ends that may name more registers.
const END: &str = "__sse_end";
/// The section of functions whose entries can be patched.
const PATCHABLE: &str = "__patchable_function_entries";

/// What an image's interrupts keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Two SSE registers, but of code that may use more.
    Two,
    /// All and MXCSR always, for the sake of this code.
    All(Use),
    /// What it was linked with: it has no such records.
    Unknown,
}

/// Where code behind the border uses more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The function, as Rust writes it.
    pub function: String,
    /// The instruction's address.
    pub address: u64,
    /// The instruction.
    pub text: String,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            function,
            address,
            text,
        } = self;
        write!(f, "`{text}` in {function} ({address:#x})")
    }
}

/// Has an image's interrupts keep no more than they must. Doing so again changes nothing.
///
/// # Errors
///
/// If the file cannot be read or written, or its records make no sense.
pub fn make(path: &Path) -> Result<Kept> {
    let elf = Elf::open(path)?;
    // What was linked by another script than an image's may have the records, but has no border.
    let (Some(section), Ok(border)) = (elf.section(BORDER), elf.symbol(END)) else {
        return Ok(Kept::Unknown);
    };
    if let Some(found) = first_use(&elf, border)? {
        return Ok(Kept::All(found));
    }
    let records = pairs(section)?.map(|(place, operand)| {
        let offset = elf.offset_of_code(place, 4);
        Ok((
            offset.with_context(|| format!("{place:#x} is no code"))?,
            operand,
        ))
    });
    let operands: Vec<_> = records
        .collect::<Result<_>>()
        .with_context(|| format!("the section {BORDER} of {} makes no sense", path.display()))?;
    write(&elf, &operands).with_context(|| format!("cannot write to {}", path.display()))?;
    Ok(Kept::Two)
}

/// Says why an image's interrupts keep all.
pub fn tell(kept: &Kept) {
    if let Kept::All(found) = kept {
        note(format!(
            "interrupts keep all SSE registers always, which takes 34 instructions more: {found} uses others than xmm0 and \
             xmm1; see docs/APPLICATION.md, Floating point"
        ));
    }
}

/// The first use of more registers behind the border, or of MXCSR anywhere: that holds for all that its thread executes
/// afterwards. A function before the border whose entry can be patched counts as well: what is called there keeps the
/// function's arguments in its own way.
fn first_use(elf: &Elf, border: u64) -> Result<Option<Use>> {
    let keeps: Vec<_> = pairs(elf.section(KEEPS).unwrap_or_default())?
        .map(|(begin, end)| begin..end)
        .collect();
    let functions = elf.functions();
    let describe = |address| Use {
        function: name_at(&functions, address),
        address,
        text: disassembly::text(elf, address),
    };
    let entries = elf
        .section(PATCHABLE)
        .unwrap_or_default()
        .as_chunks::<8>()
        .0;
    let mut entries = entries.iter().map(|bytes| u64::from_le_bytes(*bytes));
    if let Some(entry) = entries.find(|entry| *entry < border) {
        return Ok(Some(describe(entry)));
    }
    for (address, code) in elf.code() {
        let end = address + code.len() as u64;
        // From each function's beginning on, so that data between them hide no instruction.
        let begins = functions.iter().map(|(begin, _)| *begin);
        let mut begins: Vec<_> = begins
            .chain([address])
            .filter(|at| (address..end).contains(at))
            .collect();
        begins.sort_unstable();
        begins.dedup();
        let ends = begins.iter().skip(1).copied().chain([end]);
        for (begin, end) in begins.iter().zip(ends) {
            let range = to_offset(begin - address)..to_offset(end - address);
            let decoder = Decoder::with_ip(64, &code[range], *begin, DecoderOptions::NONE);
            let is_kept = |ip| keeps.iter().any(|range| range.contains(&ip));
            let mut uses = decoder
                .into_iter()
                .filter(|it| it.ip() >= border && uses_more(it) || uses_mxcsr(it));
            if let Some(found) = uses.find(|it| !is_kept(it.ip())) {
                return Ok(Some(describe(found.ip())));
            }
        }
    }
    Ok(None)
}

fn name_at(functions: &[(u64, String)], address: u64) -> String {
    let at = functions.partition_point(|(begin, _)| *begin <= address);
    let name = at.checked_sub(1).map(|at| functions[at].1.as_str());
    addr2line::demangle_auto(name.unwrap_or("code without a name").into(), None).into_owned()
}

/// Whether an instruction names a vector register other than `xmm0` and `xmm1`.
fn uses_more(instruction: &Instruction) -> bool {
    use Mnemonic::{Aesdecwide128kl, Aesdecwide256kl, Aesencwide128kl, Aesencwide256kl};
    use Mnemonic::{Vzeroall, Vzeroupper};
    let names_many = matches!(
        instruction.mnemonic(),
        Vzeroall
            | Vzeroupper
            | Aesencwide128kl
            | Aesencwide256kl
            | Aesdecwide128kl
            | Aesdecwide256kl
    );
    let is_more = |register: Register| (Register::XMM2..=Register::ZMM31).contains(&register);
    let operands = (0..instruction.op_count())
        .filter(|operand| instruction.op_kind(*operand) == OpKind::Register)
        .map(|operand| instruction.op_register(operand));
    names_many || operands.chain([instruction.memory_index()]).any(is_more)
}

/// Whether an instruction reads or writes MXCSR as such.
#[rustfmt::skip]
fn uses_mxcsr(instruction: &Instruction) -> bool {
    use Mnemonic::*;
    matches!(
        instruction.mnemonic(),
        Ldmxcsr | Stmxcsr | Vldmxcsr | Vstmxcsr
            | Fxsave | Fxsave64 | Fxrstor | Fxrstor64
            | Xsave | Xsave64 | Xsavec | Xsavec64 | Xsaveopt | Xsaveopt64 | Xsaves | Xsaves64
            | Xrstor | Xrstor64 | Xrstors | Xrstors64
    )
}

fn to_offset(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The two words of each record.
fn pairs(section: &[u8]) -> Result<impl Iterator<Item = (u64, u64)>> {
    let (records, rest) = section.as_chunks::<8>();
    ensure!(rest.is_empty(), "a record is cut off");
    let words = records.iter().map(|bytes| u64::from_le_bytes(*bytes));
    Ok(words.map(|word| (word & u64::from(u32::MAX), word >> 32)))
}

/// Writes words of 4 bytes at these offsets, all at once, so that no one finds some of them.
fn write(elf: &Elf, words: &[(usize, u64)]) -> Result<()> {
    let offsets = || words.iter().map(|(offset, _)| *offset);
    let (Some(begin), Some(last)) = (offsets().min(), offsets().max()) else {
        return Ok(());
    };
    let old = &elf.data[begin..last + 4];
    let mut new = old.to_vec();
    for (offset, word) in words {
        let at = offset - begin;
        new[at..at + 4].copy_from_slice(&word.to_le_bytes()[..4]);
    }
    if new != old {
        let file = OpenOptions::new().write(true).open(&elf.path)?;
        file.write_all_at(&new, begin as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(code: &[u8]) -> Instruction {
        Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).decode()
    }

    #[test]
    fn what_uses_more_than_two() {
        for code in [
            // movaps xmm7, xmm0; movups [rdi], xmm2; pcmpeqd xmm15, xmm1
            &[0x0f, 0x28, 0xf8][..],
            &[0x0f, 0x11, 0x17],
            &[0x66, 0x44, 0x0f, 0x76, 0xf9],
            // vaddps ymm0, ymm0, ymm1; vzeroupper
            &[0xc5, 0xfc, 0x58, 0xc1],
            &[0xc5, 0xf8, 0x77],
            // vpgatherdd xmm0, [rax + xmm2], xmm1
            &[0xc4, 0xe2, 0x71, 0x90, 0x04, 0x10],
        ] {
            assert!(uses_more(&decode(code)), "{code:x?}");
        }
        for code in [
            // movaps xmm1, xmm0; movups [rdi], xmm0; mov rdx, rdi; addss xmm0, [rsp]; pxor mm7, mm7; fld1
            &[0x0f, 0x28, 0xc8][..],
            &[0x0f, 0x11, 0x07],
            &[0x48, 0x89, 0xfa],
            &[0xf3, 0x0f, 0x58, 0x04, 0x24],
            &[0x0f, 0xef, 0xff],
            &[0xd9, 0xe8],
        ] {
            assert!(!uses_more(&decode(code)), "{code:x?}");
        }
    }

    #[test]
    fn what_deals_with_mxcsr() {
        // ldmxcsr [rdi]; stmxcsr [rdi]; fxrstor64 [rsp]
        for code in [
            &[0x0f, 0xae, 0x17][..],
            &[0x0f, 0xae, 0x1f],
            &[0x48, 0x0f, 0xae, 0x0c, 0x24],
        ] {
            assert!(uses_mxcsr(&decode(code)), "{code:x?}");
        }
        // mfence; clflush [rdi]
        for code in [&[0x0f, 0xae, 0xf0][..], &[0x0f, 0xae, 0x3f]] {
            assert!(!uses_mxcsr(&decode(code)), "{code:x?}");
        }
    }

    #[test]
    fn records_are_pairs_of_words() {
        let bytes = [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0x80, 4, 0, 0, 0];
        let read: Vec<_> = pairs(&bytes).unwrap().collect();
        assert_eq!(read, [(1, 2), (0x8000_0003, 4)]);
        assert!(pairs(&bytes[..7]).is_err());
    }

    #[test]
    fn a_program_of_the_host_is_left_alone() {
        // Not by its name: cargo may be building it anew.
        assert_eq!(make(Path::new("/proc/self/exe")).unwrap(), Kept::Unknown);
    }
}
