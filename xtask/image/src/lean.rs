//! What an image does without once all of its code is known: 14 SSE registers in interrupts, MXCSR, `lock` prefixes.
//!
//! Code that may name more than `xmm0` and `xmm1` lies at the beginning of the text, up to a border (`takt_kernel::arch::sse`).
//! Interrupts keep all only of what they come upon there. As it is linked an image knows of no border and keeps all always:
//! [`make`] reads all code behind the border, and if none of it names more, writes the border into the file.
//!
//! MXCSR's control bits are a thread's own, and a function keeps them for its caller. Where nothing deals with MXCSR all threads have the
//! same, and what a switch does with it goes.
//!
//! Instructions with a `lock` prefix that several CPUs need have none while one runs (`takt_kernel::arch::lock_prefix`).

use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use takt_base::term::note;
use takt_guest::Elf;
use takt_guest::disassembly;

/// Records of where a comparison has its operand, and of the operand: the border. 4 bytes each.
const BORDER: &str = ".takt.border";
/// Records of the beginning and the end of a stretch that names registers only to keep them. 4 bytes each.
const KEEPS: &str = ".takt.keeps";
/// Records of the beginning and the end of a stretch that deals with MXCSR, of the length of code without that, which is the same (4
/// bytes each), and of that code, up to a multiple of 4.
const NO_MXCSR: &str = ".takt.no_mxcsr";
/// Records of where an instruction follows that needs a `lock` prefix only where several CPUs run, and of where its address is noted,
/// or 0. 4 bytes each.
const LOCKS: &str = ".takt.locks";
/// A `lock` prefix.
const LOCK: u8 = 0xf0;
/// What stands in its place: `ds`, which does nothing in 64-bit mode.
const NO_LOCK: u8 = 0x3e;
/// Where code ends that may name more registers.
const END: &str = "__sse_end";
/// Where what lies there by its section ends, and the toolchain's begins, by its names.
const NAMED_END: &str = "__sse_named_end";
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

/// Bytes for a place of the file.
type Patch = (usize, Vec<u8>);

/// Has an image do without what it need not have. Doing so again changes nothing.
///
/// # Errors
///
/// If the file cannot be read or written, or its records make no sense.
pub fn make(path: &Path) -> Result<Kept> {
    loop {
        let elf = Elf::open(path)?;
        let (kept, patches) = look_at(path, &elf)?;
        if write(&elf, &patches).with_context(|| format!("cannot write to {}", path.display()))? {
            return Ok(kept);
        }
    }
}

/// What its interrupts keep, and what is to be written for that.
fn look_at(path: &Path, elf: &Elf) -> Result<(Kept, Vec<Patch>)> {
    // What was linked by another script than an image's may have the records, but has no border.
    let (Some(section), Ok(border)) = (elf.section(BORDER), elf.symbol(END)) else {
        return Ok((Kept::Unknown, Vec::new()));
    };
    let senseless = |section| format!("the section {section} of {} makes no sense", path.display());
    let mut patches = without_locks(elf).with_context(|| senseless(LOCKS))?;
    let found = first_use(elf, border)?;
    if found.is_none() {
        for (place, operand) in pairs(section).with_context(|| senseless(BORDER))? {
            let border = (operand as u32).to_le_bytes();
            patches.push(patch(elf, place, &border).with_context(|| senseless(BORDER))?);
        }
    }
    if found.is_none() || first(elf, uses_mxcsr)?.is_none() {
        patches.extend(without_mxcsr(elf).with_context(|| senseless(NO_MXCSR))?);
    }
    Ok((found.map_or(Kept::Two, Kept::All), patches))
}

/// These bytes at an address.
fn patch(elf: &Elf, address: u64, bytes: &[u8]) -> Result<Patch> {
    let offset = elf.offset_of(address, bytes.len());
    let offset = offset.with_context(|| format!("{address:#x} is in no section"))?;
    Ok((offset, bytes.to_vec()))
}

/// What has a switch not deal with MXCSR.
fn without_mxcsr(elf: &Elf) -> Result<Vec<Patch>> {
    let mut records = elf.section(NO_MXCSR).unwrap_or_default();
    let mut patches = Vec::new();
    while !records.is_empty() {
        let cut = "a record is cut off";
        let (range, rest) = records.split_first_chunk::<8>().context(cut)?;
        let (len, rest) = rest.split_first_chunk::<4>().context(cut)?;
        let (begin, end) = pair(*range);
        let len = to_offset(u32::from_le_bytes(*len).into());
        let code = rest.get(..len).context(cut)?;
        ensure!(begin + len as u64 == end, "not as many bytes at {begin:#x}");
        patches.push(patch(elf, begin, code)?);
        records = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(patches)
}

/// What takes prefixes off, and notes where they were. A prefix that is not found stays.
fn without_locks(elf: &Elf) -> Result<Vec<Patch>> {
    let mut patches = Vec::new();
    for (mark, note) in pairs(elf.section(LOCKS).unwrap_or_default())? {
        let Some(prefix) = prefix_behind(elf.code_at(mark)) else {
            continue;
        };
        let prefix = mark + prefix as u64;
        patches.push(patch(elf, prefix, &[NO_LOCK])?);
        if note != 0 {
            patches.push(patch(elf, note, &(prefix as u32).to_le_bytes())?);
        }
    }
    Ok(patches)
}

/// Where the first instruction with a `lock` prefix begins with that, or with what stands in its place: before any jump.
fn prefix_behind(code: &[u8]) -> Option<usize> {
    let decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut straight = decoder
        .into_iter()
        .take_while(|it| it.flow_control() == FlowControl::Next);
    let first = |it: &Instruction| code[to_offset(it.ip())];
    let found = straight.find(|it| it.has_lock_prefix() || first(it) == NO_LOCK)?;
    // It comes before all others, as the compiler writes them.
    matches!(first(&found), LOCK | NO_LOCK).then(|| to_offset(found.ip()))
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
/// function's arguments in its own way. So does one that has come among the toolchain's by its name.
fn first_use(elf: &Elf, border: u64) -> Result<Option<Use>> {
    let functions = elf.functions();
    let toolchains = elf.symbol(NAMED_END).unwrap_or(border)..border;
    let mut among = functions
        .iter()
        .filter(|it| toolchains.contains(&it.0) && it.1 != NAMED_END);
    if let Some((address, _)) = among.find(|it| !is_toolchains(&it.1)) {
        return Ok(Some(describe(elf, &functions, *address)));
    }
    let entries = elf
        .section(PATCHABLE)
        .unwrap_or_default()
        .as_chunks::<8>()
        .0;
    let mut entries = entries.iter().map(|bytes| u64::from_le_bytes(*bytes));
    if let Some(entry) = entries.find(|entry| *entry < border) {
        return Ok(Some(describe(elf, &functions, entry)));
    }
    first(elf, |it| {
        it.ip() >= border && uses_more(it) || uses_mxcsr(it)
    })
}

/// The first such instruction, but of those that only keep what is in registers.
fn first(elf: &Elf, is_one: impl Fn(&Instruction) -> bool) -> Result<Option<Use>> {
    let keeps: Vec<_> = pairs(elf.section(KEEPS).unwrap_or_default())?
        .map(|(begin, end)| begin..end)
        .collect();
    let is_kept = |ip| keeps.iter().any(|range| range.contains(&ip));
    let functions = elf.functions();
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
            let mut found = decoder.into_iter().filter(&is_one);
            if let Some(found) = found.find(|it| !is_kept(it.ip())) {
                return Ok(Some(describe(elf, &functions, found.ip())));
            }
        }
    }
    Ok(None)
}

/// Whether this is a function of the toolchain's `core`: by the crate that its name begins with. No application's crate is called so
/// (`takt_board::entry!`).
fn is_toolchains(name: &str) -> bool {
    let name = addr2line::demangle_auto(name.into(), None);
    let path = name.trim_start_matches(['<', '&', '*']);
    // A trait's function for a type of theirs may be of another crate, which the trait is of.
    !name.contains(" as ") && path.starts_with("core::")
}

fn describe(elf: &Elf, functions: &[(u64, String)], address: u64) -> Use {
    Use {
        function: name_at(functions, address),
        address,
        text: disassembly::text(elf, address),
    }
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
    Ok(records.iter().copied().map(pair))
}

fn pair(record: [u8; 8]) -> (u64, u64) {
    let word = u64::from_le_bytes(record);
    (word & u64::from(u32::MAX), word >> 32)
}

/// Writes them, all at once, so that no one finds some of them; or says that the file is another one by now, which somebody else has
/// built, and writes nothing.
fn write(elf: &Elf, patches: &[Patch]) -> Result<bool> {
    let begin = patches.iter().map(|(offset, _)| *offset).min();
    let end = patches
        .iter()
        .map(|(offset, bytes)| offset + bytes.len())
        .max();
    let (Some(begin), Some(end)) = (begin, end) else {
        return Ok(true);
    };
    let old = &elf.data[begin..end];
    let mut new = old.to_vec();
    for (offset, bytes) in patches {
        new[offset - begin..][..bytes.len()].copy_from_slice(bytes);
    }
    if new != old {
        let mut file = OpenOptions::new().read(true).write(true).open(&elf.path)?;
        let mut data = Vec::new();
        file.read_to_end(&mut data)?;
        if data != *elf.data {
            return Ok(false);
        }
        file.write_all_at(&new, begin as u64)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(code: &[u8]) -> Instruction {
        Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).decode()
    }

    #[test]
    fn the_toolchains_functions_are_known_by_their_crates() {
        for name in [
            "_RNvMsa_NtCsgEmfK2I1SDS_4core3fmtNtB5_9Formatter3pad",
            "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
        ] {
            assert!(is_toolchains(name), "{name}");
        }
        for name in [
            "_ZN4demo4core3str5count6across17h0123456789abcdefE",
            "_RNvNtNtNtCsgEmfK2I1SDS_4demo4core3str5count6across",
            "_ZN17compiler_builtins3mem6memcpy17h0123456789abcdefE",
            "_ZN4libm4math4sqrt17h0123456789abcdefE",
            "_ZN70_$LT$core..time..Duration$u20$as$u20$demo..x4core3str5count..T$GT$6across17h0123456789abcdefE",
        ] {
            assert!(!is_toolchains(name), "{name}");
        }
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
    fn the_prefix_behind_a_mark() {
        // xor eax, eax; mov ecx, -1; lock cmpxchg [rdi], ecx; jne +2; lock inc dword ptr [rdi]
        let code = [
            0x31, 0xc0, 0xb9, 0xff, 0xff, 0xff, 0xff, 0xf0, 0x0f, 0xb1, 0x0f, 0x75, 0x02, 0xf0,
            0xff, 0x07,
        ];
        assert_eq!(prefix_behind(&code), Some(7));
        let mut without = code;
        without[7] = NO_LOCK;
        assert_eq!(prefix_behind(&without), Some(7));
        assert_eq!(prefix_behind(&code[11..]), None, "behind a jump");
        assert_eq!(prefix_behind(&[]), None);
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
