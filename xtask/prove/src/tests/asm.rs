//! A few instructions, and images of them.

use std::collections::HashMap;

use crate::image::Image;

/// Where the code lies.
const START: u64 = 0x10_0000;

/// Code under construction. Functions begin with [`function`](Self::function); branches are to names of places.
#[derive(Debug, Default)]
pub(super) struct Asm {
    code: Vec<u8>,
    symbols: Vec<(String, u64)>,
    places: HashMap<String, usize>,
    /// Four bytes each, to be filled with the distance.
    open: Vec<(usize, String)>,
    marks: Vec<u8>,
}

impl Asm {
    fn here(&self) -> u64 {
        START + self.code.len() as u64
    }

    /// A function begins, as compiled code is named.
    pub(super) fn function(&mut self, name: &str) -> &mut Self {
        let symbol = format!("_ZN{}{name}17h0123456789abcdefE", name.len());
        self.symbols.push((symbol, self.here()));
        self.place(name)
    }

    /// A place that branches may name.
    pub(super) fn place(&mut self, name: &str) -> &mut Self {
        self.places.insert(name.into(), self.code.len());
        self
    }

    /// Where a place is.
    pub(super) fn address(&self, name: &str) -> u64 {
        START + self.places[name] as u64
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.code.extend(bytes);
        self
    }

    fn branch(&mut self, opcode: &[u8], to: &str) -> &mut Self {
        self.bytes(opcode);
        self.open.push((self.code.len(), to.into()));
        self.bytes(&[0; 4])
    }

    pub(super) fn call(&mut self, to: &str) -> &mut Self {
        self.branch(&[0xe8], to)
    }

    pub(super) fn jmp(&mut self, to: &str) -> &mut Self {
        self.branch(&[0xe9], to)
    }

    /// A conditional jump by the condition's number.
    pub(super) fn jcc(&mut self, condition: u8, to: &str) -> &mut Self {
        self.branch(&[0x0f, 0x80 | condition], to)
    }

    /// The address of a place, in rax.
    pub(super) fn lea_rax(&mut self, to: &str) -> &mut Self {
        self.branch(&[0x48, 0x8d, 0x05], to)
    }

    pub(super) fn cli(&mut self) -> &mut Self {
        self.bytes(&[0xfa])
    }

    pub(super) fn sti(&mut self) -> &mut Self {
        self.bytes(&[0xfb])
    }

    pub(super) fn ret(&mut self) -> &mut Self {
        self.bytes(&[0xc3])
    }

    pub(super) fn nops(&mut self, nr: usize) -> &mut Self {
        self.bytes(&vec![0x90; nr])
    }

    /// `mov r32, imm32`
    pub(super) fn mov(&mut self, register: u8, value: u32) -> &mut Self {
        self.bytes(&[0xb8 | register]).bytes(&value.to_le_bytes())
    }

    /// `add`, `or`, `and`, `sub`, `xor` or `cmp` (0, 1, 4, 5, 6, 7) `r32, imm32`
    pub(super) fn arithmetic(&mut self, what: u8, register: u8, value: u32) -> &mut Self {
        self.bytes(&[0x81, 0xc0 | what << 3 | register])
            .bytes(&value.to_le_bytes())
    }

    /// `dec r32`
    pub(super) fn dec(&mut self, register: u8) -> &mut Self {
        self.bytes(&[0xff, 0xc8 | register])
    }

    /// `test r32, r32`
    pub(super) fn test(&mut self, register: u8) -> &mut Self {
        self.bytes(&[0x85, 0xc0 | register << 3 | register])
    }

    pub(super) fn push(&mut self, register: u8) -> &mut Self {
        self.bytes(&[0x50 | register])
    }

    pub(super) fn pop(&mut self, register: u8) -> &mut Self {
        self.bytes(&[0x58 | register])
    }

    pub(super) fn pushfq(&mut self) -> &mut Self {
        self.bytes(&[0x9c])
    }

    pub(super) fn popfq(&mut self) -> &mut Self {
        self.bytes(&[0x9d])
    }

    /// What the sources would say of this place.
    pub(super) fn mark(&mut self, kind: u32, text: &str) -> &mut Self {
        self.marks.extend((self.here() as u32).to_le_bytes());
        self.marks.extend(kind.to_le_bytes());
        self.marks.extend(text.as_bytes());
        let end = self.marks.len() / 4 * 4 + 4;
        self.marks.resize(end, 0);
        self
    }

    /// The image of it.
    pub(super) fn image(&mut self) -> Image {
        for (at, to) in std::mem::take(&mut self.open) {
            let distance = self.places[&to] as i32 - (at as i32 + 4);
            self.code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        let symbols = self.symbols.iter().map(|(name, at)| (name.as_str(), *at));
        Image::of_code(START, &self.code, symbols, self.marks.clone())
    }
}
