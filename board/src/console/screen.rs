//! [`Screen`]: 80 by 25 characters, as EGA's text or drawn into the framebuffer that the loader has set.
//!
//! What is on it is kept in memory as well, and only characters that change are drawn: a screen's memory is slow, and never
//! read. Whoever writes does so by `&self`: two that write at once mix their characters, which is the worst that comes of a
//! fault's report in the middle of a line.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed};

use bitflags::bitflags;
use embedded_graphics::geometry::{OriginDimensions, Point};
use embedded_graphics::image::GetPixel;
use embedded_graphics::mono_font::ascii::FONT_10X20 as FONT;
use embedded_graphics::pixelcolor::BinaryColor;
use takt_kernel::machine::Port;
use volatile::VolatilePtr;
use volatile::access::WriteOnly;

use crate::loader::{Framebuffer, Kind};

pub(super) const COLUMNS: usize = 80;
pub(super) const ROWS: usize = 25;
/// A character's pixels before it is enlarged.
const GLYPH: (usize, usize) = (10, 20);

/// Has a VGA show no cursor, which would blink where nothing is typed.
///
/// Source: IBM VGA XGA technical reference, CRT controller, cursor start register.
///
/// # Safety
/// There is a VGA in text mode.
pub(super) unsafe fn hide_cursor() {
    const INDEX: u16 = 0x3d4;
    const CURSOR_START: u8 = 0x0a;
    bitflags! {
        struct CursorStart: u8 {
            const OFF = 1 << 5;
        }
    }
    // SAFETY: a VGA's, by the caller's promise.
    unsafe { Port::<u8>::new(INDEX).write(CURSOR_START) };
    // SAFETY: the data of the register that was just selected.
    unsafe { Port::<u8>::new(INDEX + 1).write(CursorStart::OFF.bits()) };
}

/// What a text is, which its colour shows. The number is EGA's attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Style {
    /// Light grey.
    Normal = 0x07,
    /// Light red.
    Fault = 0x0c,
}

impl Style {
    /// Red, green and blue.
    const fn color(self) -> [u8; 3] {
        match self {
            Self::Normal => [0xc0; 3],
            Self::Fault => [0xff, 0x60, 0x60],
        }
    }
}

/// Where characters are drawn.
#[derive(Clone, Copy, Debug)]
struct Surface {
    base: usize,
    pitch: usize,
    kind: Kind,
    /// Pixels for each of the font's, across and down.
    scale: usize,
}

/// The screen.
#[derive(Debug)]
pub(crate) struct Screen {
    surface: Surface,
    /// Attribute and character of each cell.
    cells: [AtomicU16; COLUMNS * ROWS],
    cursor: AtomicUsize,
}

impl Screen {
    /// How far the screen's memory goes from its beginning as far as it is drawn on, in bytes. None if it has no room for
    /// the characters.
    pub(crate) fn extent(of: &Framebuffer) -> Option<usize> {
        Some(Surface::new(of, 0)?.extent())
    }

    /// Empties it. None if it has no room for the characters.
    ///
    /// # Safety
    /// At `base` its memory is mapped writable, as much as [`extent`](Self::extent) says, and nobody else uses it.
    pub(crate) unsafe fn new(of: &Framebuffer, base: usize) -> Option<Self> {
        let surface = Surface::new(of, base)?;
        // SAFETY: the caller's promise.
        unsafe { core::ptr::write_bytes(base as *mut u8, 0, surface.extent()) };
        Some(Self {
            surface,
            cells: [const { AtomicU16::new(0) }; COLUMNS * ROWS],
            cursor: AtomicUsize::new(0),
        })
    }

    /// Writes a text at the cursor. Its lines end with `\n`; what is behind the last column goes on in the next line.
    pub(crate) fn write(&self, text: &[u8], style: Style) {
        for &byte in text {
            match byte {
                b'\n' => {
                    while !(self.cursor() + 1).is_multiple_of(COLUMNS) {
                        self.put(b' ', style);
                    }
                    self.put(b' ', style);
                }
                b' '..=b'~' => self.put(byte, style),
                b'\r' => {}
                _ => self.put(b'?', style),
            }
        }
    }

    /// Puts the cursor at the beginning of the line that many lines above its own.
    pub(super) fn up(&self, lines: usize) {
        let row = (self.cursor() / COLUMNS).saturating_sub(lines);
        self.cursor.store(row * COLUMNS, Relaxed);
    }

    fn cursor(&self) -> usize {
        self.cursor.load(Relaxed)
    }

    fn put(&self, byte: u8, style: Style) {
        if self.cursor() >= COLUMNS * ROWS {
            self.scroll();
        }
        let cell = self.cursor();
        self.set(cell, u16::from_be_bytes([style as u8, byte]));
        self.cursor.store(cell + 1, Relaxed);
    }

    /// All lines go up by one.
    fn scroll(&self) {
        for cell in 0..COLUMNS * ROWS {
            let below = self.cells.get(cell + COLUMNS);
            self.set(cell, below.map_or(0, |below| below.load(Relaxed)));
        }
        self.cursor.store(COLUMNS * (ROWS - 1), Relaxed);
    }

    fn set(&self, cell: usize, value: u16) {
        let Some(place) = self.cells.get(cell) else {
            return;
        };
        if place.swap(value, Relaxed) != value {
            self.surface.draw(cell, value);
        }
    }
}

impl Surface {
    fn new(of: &Framebuffer, base: usize) -> Option<Self> {
        let (width, height) = (of.width as usize, of.height as usize);
        let scale = match of.kind {
            Kind::Text => (width / COLUMNS).min(height / ROWS).min(1),
            Kind::Pixels { .. } => (width / (COLUMNS * GLYPH.0)).min(height / (ROWS * GLYPH.1)),
        };
        let surface = Self {
            base,
            pitch: of.pitch as usize,
            kind: of.kind,
            scale,
        };
        let (line, _) = surface.size();
        (scale > 0 && line <= surface.pitch).then_some(surface)
    }

    /// Bytes of a line that are drawn on, and lines.
    fn size(&self) -> (usize, usize) {
        match self.kind {
            Kind::Text => (COLUMNS * 2, ROWS),
            Kind::Pixels { .. } => (
                COLUMNS * GLYPH.0 * self.scale * 4,
                ROWS * GLYPH.1 * self.scale,
            ),
        }
    }

    fn extent(&self) -> usize {
        let (line, lines) = self.size();
        (lines - 1) * self.pitch + line
    }

    /// Its memory, so many bytes behind its beginning.
    fn at<T>(&self, offset: usize) -> VolatilePtr<'_, T, WriteOnly> {
        debug_assert!(offset + size_of::<T>() <= self.extent());
        let at = NonNull::new((self.base + offset) as *mut T).unwrap_or(NonNull::dangling());
        // SAFETY: within the extent, which whoever made this promised to be mapped.
        unsafe { VolatilePtr::new_restricted(WriteOnly, at) }
    }

    /// Draws the character of a cell.
    fn draw(&self, cell: usize, value: u16) {
        let (column, row) = (cell % COLUMNS, cell / COLUMNS);
        let [attribute, byte] = value.to_be_bytes();
        match self.kind {
            Kind::Text => {
                self.at(row * self.pitch + column * 2).write(value);
            }
            Kind::Pixels { positions } => {
                let style = match attribute {
                    it if it == Style::Fault as u8 => Style::Fault,
                    _ => Style::Normal,
                };
                let color = core::iter::zip(style.color(), positions)
                    .fold(0, |sum, (color, position)| {
                        sum | u32::from(color) << position
                    });
                self.draw_pixels((column, row), byte, color);
            }
        }
    }

    fn draw_pixels(&self, (column, row): (usize, usize), byte: u8, color: u32) {
        let index = FONT.glyph_mapping.index(byte.into());
        let per_row = FONT.image.size().width as usize / GLYPH.0;
        let (left, top) = (index % per_row * GLYPH.0, index / per_row * GLYPH.1);
        for y in 0..GLYPH.1 * self.scale {
            let line =
                (row * GLYPH.1 * self.scale + y) * self.pitch + column * GLYPH.0 * self.scale * 4;
            for x in 0..GLYPH.0 * self.scale {
                let of_font = Point::new(
                    (left + x / self.scale) as i32,
                    (top + y / self.scale) as i32,
                );
                let is_set = byte != 0 && FONT.image.pixel(of_font) == Some(BinaryColor::On);
                let pixel = if is_set { color } else { 0 };
                self.at(line + x * 4).write(pixel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::String;
    use std::vec::Vec;

    use super::*;

    fn text_mode() -> Framebuffer {
        Framebuffer {
            address: 0xb8000,
            pitch: 160,
            width: 80,
            height: 25,
            kind: Kind::Text,
        }
    }

    /// A screen in memory of ours, which stays for ever.
    fn screen(of: &Framebuffer) -> (Screen, &'static [u8]) {
        let memory = Vec::leak(std::vec![0xee_u8; Screen::extent(of).unwrap()]);
        let (base, len) = (memory.as_mut_ptr(), memory.len());
        // SAFETY: nobody else has it but for the test, which looks at it when nothing is drawn.
        let screen = unsafe { Screen::new(of, base as usize) }.unwrap();
        // SAFETY: memory that was leaked, of that length.
        (screen, unsafe { core::slice::from_raw_parts(base, len) })
    }

    fn row(memory: &[u8], row: usize) -> String {
        let cells = memory[row * 160..][..160].chunks_exact(2);
        let text: String = cells.map(|cell| char::from(cell[0].max(b' '))).collect();
        text.trim_end().into()
    }

    #[test]
    fn lines_are_written_replaced_and_scrolled() {
        let (screen, memory) = screen(&text_mode());
        screen.write(b"first\r\nsecond\n", Style::Normal);
        assert_eq!(
            (row(memory, 0), row(memory, 1)),
            ("first".into(), "second".into())
        );
        screen.up(1);
        screen.write(b"2\n", Style::Fault);
        assert_eq!(row(memory, 1), "2");
        assert_eq!(memory[160..162], [b'2', 0x0c]);
        for _ in 0..ROWS {
            screen.write(b"more\x07\n", Style::Normal);
        }
        assert_eq!(row(memory, ROWS - 1), "more?");
        screen.write(b"last", Style::Normal);
        assert_eq!(row(memory, ROWS - 1), "last");
        assert_eq!(row(memory, 0), "more?");
        screen.up(1000);
        screen.write(&[b'x'; 81], Style::Normal);
        assert_eq!((row(memory, 0).len(), row(memory, 1)), (80, "xore?".into()));
    }

    #[test]
    fn pixels_are_the_fonts_enlarged() {
        let large = Framebuffer {
            address: 0,
            pitch: 1700 * 4,
            width: 1680,
            height: 1050,
            kind: Kind::Pixels {
                positions: [16, 8, 0],
            },
        };
        let (screen, memory) = screen(&large);
        screen.write(b"|", Style::Fault);
        let pixel = |x: usize, y: usize| {
            let at = y * 1700 * 4 + x * 4;
            u32::from_le_bytes(memory[at..at + 4].try_into().unwrap())
        };
        let lit: Vec<_> = (0..20).filter(|x| pixel(*x, 20) != 0).collect();
        assert!(!lit.is_empty() && lit.len().is_multiple_of(2), "{lit:?}");
        assert_eq!(pixel(lit[0], 20), 0x00ff_6060);
        assert_eq!(pixel(lit[0], 20), pixel(lit[0], 21));
        assert_eq!(pixel(25, 20), 0);
    }

    #[test]
    fn a_screen_without_room_is_none() {
        for (width, height, pitch) in [(640, 480, 2560), (800, 400, 3200), (800, 600, 3196)] {
            let small = Framebuffer {
                address: 0,
                pitch,
                width,
                height,
                kind: Kind::Pixels { positions: [0; 3] },
            };
            assert_eq!(Screen::extent(&small), None, "{width} by {height}");
        }
    }
}
