//! Base address registers: where a function's memory and ports are, and how large.

use heapless::Vec;
use takt_kernel::sync::Mutex;
use takt_kernel::{machine, preempt};

use super::config::Config;
use super::{Bar, CommandRegister, Function};

/// The base address registers that were asked for, since to ask is to write to them; for who asks, of whichever function, and for who
/// reads what is written over meanwhile.
static BASES: Mutex<Vec<Known, MAX_KNOWN>> = Mutex::new(Vec::new());
/// As many are kept. Further ones are asked for each time.
const MAX_KNOWN: usize = 32;

/// A base address register.
struct Known {
    of: Function,
    slot: u8,
    /// What was in it, and in the next one if that belongs to it.
    value: u64,
    bar: Option<Bar>,
}

impl Function {
    /// Memory or ports in base address register `slot`. What its registers give as sizes is asked for by writing to them, and the
    /// function does not answer meanwhile: that is once, by whoever is the first to ask, with interrupts off for a register's time. What
    /// another CPU writes to it then is lost, and what it reads has all bits set: to be asked before a driver uses it.
    ///
    /// # Context
    /// Threads that may block: one asks at a time. Elsewhere `None` where another is at it.
    #[must_use]
    pub fn bar(self, slot: u8) -> Option<Bar> {
        let endpoint = self.endpoint()?;
        let mut known = BASES.lock().ok()?;
        let value = self.value(slot)?;
        if !known.iter().any(|it| it.of == self) {
            let mut slot = 0;
            while slot < self.nr_bases() {
                let bar = self.value(slot).map(|value| {
                    let bar = self.silently(|| endpoint.bar(slot, Config));
                    let of = self;
                    // The first one says that all were asked for. Without room they are each time.
                    if bar.is_some() || slot == 0 {
                        let _ = known.push(Known {
                            of,
                            slot,
                            value,
                            bar,
                        });
                    }
                    bar
                });
                let has_two = matches!(bar, Some(Some(Bar::Memory64 { .. })));
                slot += if has_two { 2 } else { 1 };
            }
        }
        let is_it = |it: &&Known| it.of == self && it.slot == slot && it.value == value;
        match known.iter().find(is_it) {
            Some(it) => it.bar,
            // It is empty, and was.
            None if !known.is_full()
                && !known.iter().any(|it| it.of == self && it.slot == slot) =>
            {
                None
            }
            None => self.silently(|| endpoint.bar(slot, Config)),
        }
    }

    /// What is in a base address register, and in the next one if that belongs to it; `None` if it is of no kind that there is.
    fn value(self, slot: u8) -> Option<u64> {
        let read = |slot: u8| u64::from(self.read(0x10 + 4 * u16::from(slot)));
        let nr_left = self.nr_bases().checked_sub(slot)?;
        if nr_left == 0 {
            return None;
        }
        let low = read(slot);
        // Memory takes one register or two.
        match low & 7 {
            0 | 1 | 3 | 5 | 7 => Some(low),
            4 if nr_left > 1 => Some(low | read(slot + 1) << 32),
            _ => None,
        }
    }

    /// Does something while it answers neither at its ports nor at its memory. But a bridge goes on: others are behind it.
    fn silently<R>(self, act: impl FnOnce() -> R) -> R {
        const BRIDGE: u8 = 6;
        if self.header().revision_and_class(Config).1 == BRIDGE {
            return act();
        }
        // Its driver does not come in between.
        let alone = preempt::irq_save();
        let answers = CommandRegister::IO_ENABLE | CommandRegister::MEMORY_ENABLE;
        let mut before = CommandRegister::empty();
        self.update_command(|command| {
            before = command & answers;
            command - answers
        });
        let result = act();
        self.update_command(|command| command | before);
        alone.restore();
        result
    }

    /// Enables it, and gives the first of its ports in base address register `slot`. It goes on meanwhile, if it was enabled.
    ///
    /// # Context
    /// That of [`bar`](Self::bar).
    #[must_use]
    pub fn enable_ports(self, slot: u8) -> Option<u16> {
        let value = self.base(slot)?;
        let port = u16::try_from(value & !3).ok().filter(|port| *port != 0)?;
        if value & 1 == 0 {
            return None;
        }
        self.enable();
        Some(port)
    }

    /// Enables it, and gives the address of its memory in base address register `slot`, if that is mapped. It goes on
    /// meanwhile, if it was enabled.
    ///
    /// # Context
    /// That of [`bar`](Self::bar).
    #[must_use]
    pub fn enable_memory(self, slot: u8) -> Option<usize> {
        let value = self.base(slot)?;
        // Memory lies at a multiple of its size: what begins below 4 GiB ends there.
        let is_below = match value & 7 {
            0 => true,
            4 => self.base(slot + 1)? == 0,
            _ => false,
        };
        let address = (value & !0xf) as usize;
        if !is_below || address == 0 {
            return None;
        }
        if address < 3 << 30 {
            machine::map_devices();
            // Where the stacks are no device is found.
            if machine::find(address, 1) != Some(address) {
                return None;
            }
        }
        self.enable();
        Some(address)
    }

    /// A base address register as it is, once nobody asks for its size.
    fn base(self, slot: u8) -> Option<u32> {
        let _one = BASES.lock().ok()?;
        (slot < self.nr_bases()).then(|| self.read(0x10 + 4 * u16::from(slot)))
    }
}
