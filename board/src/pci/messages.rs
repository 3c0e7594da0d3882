//! Interrupts as messages: one kind (MSI), or a table of them (MSI-X).

use core::ptr::NonNull;

use heapless::Vec;
use pci_types::capability::{MsiCapability, MsixCapability, MultipleMessageSupport};
use takt_kernel::irq::Irq;
use takt_kernel::sync::Mutex;
use takt_kernel::{Error, smp};
use volatile::VolatilePtr;

use super::config::Config;
use super::{Capability, CommandRegister, Function};

/// Which functions' interrupts were given to handlers, and whether as messages of a table; for who gives them.
static GIVEN: Mutex<Vec<(Function, bool), MAX_GIVEN>> = Mutex::new(Vec::new());
/// As many functions may have messages.
const MAX_GIVEN: usize = 32;

/// How this function's were given, if they were.
fn kind_of(given: &[(Function, bool)], function: Function) -> Option<bool> {
    let mut kinds = given.iter().filter(|it| it.0 == function).map(|it| it.1);
    kinds.next()
}

impl Function {
    /// Whether it may send messages.
    fn check_dma(self) -> Result<(), Error> {
        let command = self.header().command(Config);
        match command.contains(CommandRegister::BUS_MASTER_ENABLE) {
            true => Ok(()),
            false => Err(Error::InvalidState),
        }
    }

    /// Has its interrupts come as messages (MSI) to `irq`'s handler on a CPU, at once.
    ///
    /// # Errors
    /// `irq` is released, then: [`Error::InvalidArgument`] if it cannot send messages or the CPU does not run; [`Error::InvalidState`] if they
    /// have a handler, if a firmware has left them on, or if it may not [access memory](Self::enable_dma); [`Error::OutOfResources`] if 32
    /// functions have messages; those of [`Mutex::lock`].
    pub fn enable_msi(self, irq: Irq, cpu: usize) -> Result<Msi, Error> {
        let (irq, capability) = irq.routed(|irq| {
            let mut given = GIVEN.lock()?;
            let msi = self.capabilities().find_map(|capability| match capability {
                Capability::Msi(msi) => Some(msi),
                _ => None,
            });
            let msi = msi.ok_or(Error::InvalidArgument)?;
            if msi.is_enabled(Config) || kind_of(&given, self).is_some() {
                return Err(Error::InvalidState);
            }
            self.check_dma()?;
            let address = message_address(cpu)?;
            given
                .push((self, false))
                .map_err(|_| Error::OutOfResources)?;
            self.silence(false);
            msi.set_message_info(address.into(), irq.vector().into(), Config);
            msi.set_multiple_message_enable(MultipleMessageSupport::Int1, Config);
            self.without_pin();
            msi.set_enabled(true, Config);
            Ok(msi)
        })?;
        Ok(Msi {
            capability,
            irq,
            function: self,
        })
    }

    /// Has one kind of its interrupts (MSI-X) come to `irq`'s handler on a CPU, at once. `entry` is its number in the function's
    /// table; the others are masked until they have handlers.
    ///
    /// # Errors
    /// `irq` is released, then: [`Error::InvalidArgument`] if it has no such table or entry, or the CPU does not run; [`Error::InvalidState`] if
    /// the entry has a handler, or the function's messages without a table have, or it may not [access memory](Self::enable_dma);
    /// [`Error::OutOfResources`] if 32 functions have messages; those of [`Mutex::lock`].
    pub fn enable_msix(self, entry: u16, irq: Irq, cpu: usize) -> Result<Msix, Error> {
        let (irq, table) = irq.routed(|irq| self.set_message(entry, irq.vector(), cpu))?;
        let msix = Msix { table, entry, irq };
        msix.unmask();
        Ok(msix)
    }

    /// Has an entry of its table, whose address is told, say this vector, and be masked.
    fn set_message(self, entry: u16, vector: u8, cpu: usize) -> Result<usize, Error> {
        let address = message_address(cpu)?;
        let mut given = GIVEN.lock()?;
        let kind = kind_of(&given, self);
        if kind == Some(false) {
            return Err(Error::InvalidState);
        }
        let capability = self.capabilities().find_map(|capability| match capability {
            Capability::MsiX(msix) => Some(msix),
            _ => None,
        });
        let mut capability: MsixCapability = capability.ok_or(Error::InvalidArgument)?;
        if entry >= capability.table_size() {
            return Err(Error::InvalidArgument);
        }
        self.check_dma()?;
        let memory = self.enable_memory(capability.table_bar());
        let table = memory.ok_or(Error::InvalidArgument)? + capability.table_offset() as usize;
        if kind.is_none() {
            let pushed = given.push((self, true));
            pushed.map_err(|_| Error::OutOfResources)?;
            self.silence(true);
            // A firmware may have left anything there.
            capability.set_function_mask(true, Config);
            capability.set_enabled(true, Config);
            for other in 0..capability.table_size() {
                let word = message_word(table, other, 3);
                word.write(word.read() | 1);
                message_word(table, other, 2).write(0);
            }
            capability.set_function_mask(false, Config);
            self.without_pin();
        }
        // The data is the vector, and no vector is 0.
        if message_word(table, entry, 2).read() != 0 {
            return Err(Error::InvalidState);
        }
        let words = [address, 0, vector.into()];
        for (word, value) in words.into_iter().enumerate() {
            message_word(table, entry, word).write(value);
        }
        Ok(table)
    }

    /// Has it send no messages of the other kind than that of a table, or than that, which a firmware may have left on.
    fn silence(self, has_table: bool) {
        for capability in self.capabilities() {
            match capability {
                Capability::Msi(other) if has_table => other.set_enabled(false, Config),
                Capability::MsiX(mut other) if !has_table => other.set_enabled(false, Config),
                _ => {}
            }
        }
    }

    /// No interrupts by its pin.
    fn without_pin(self) {
        self.update_command(|command| command | CommandRegister::INTERRUPT_DISABLE);
    }
}

/// Where a message to a CPU is written to.
pub(crate) fn message_address(cpu: usize) -> Result<u32, Error> {
    let id = smp::apic_id(cpu).ok_or(Error::InvalidArgument)?;
    Ok(0xfee0_0000 | id << 12)
}

/// A function's interrupts as messages.
#[derive(Debug)]
pub struct Msi {
    function: Function,
    capability: MsiCapability,
    irq: Irq,
}

impl Msi {
    /// The vector and the name.
    #[must_use]
    pub fn irq(&self) -> &Irq {
        &self.irq
    }

    /// Lets the messages be sent.
    pub fn unmask(&self) {
        self.capability.set_enabled(true, Config);
    }

    /// Has none sent. What comes meanwhile is lost.
    pub fn mask(&self) {
        self.capability.set_enabled(false, Config);
    }

    /// Has the next ones come to another CPU. Nobody else masks or unmasks them meanwhile.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it does not run.
    pub fn set_cpu(&mut self, cpu: usize) -> Result<(), Error> {
        let address = message_address(cpu)?;
        let is_enabled = self.capability.is_enabled(Config);
        self.mask();
        let vector = u32::from(self.irq.vector());
        self.capability
            .set_message_info(address.into(), vector, Config);
        if is_enabled {
            self.unmask();
        }
        Ok(())
    }

    /// Whose they are.
    #[must_use]
    pub fn function(&self) -> Function {
        self.function
    }
}

/// A word of an entry of a table of messages: address, its upper half, data, control.
fn message_word(table: usize, entry: u16, word: usize) -> VolatilePtr<'static, u32> {
    let at = (table + 16 * usize::from(entry) + 4 * word) as *mut u32;
    // SAFETY: the function's table, which has that entry, in memory that is mapped.
    unsafe { VolatilePtr::new(NonNull::new(at).unwrap_or(NonNull::dangling())) }
}

/// One of a function's interrupts as messages of their own.
#[derive(Debug)]
pub struct Msix {
    table: usize,
    entry: u16,
    irq: Irq,
}

impl Msix {
    /// The vector and the name.
    #[must_use]
    pub fn irq(&self) -> &Irq {
        &self.irq
    }

    /// Has none sent any more, and gives entry and vector back. The device wants nothing: what it sent is not under way.
    pub(crate) fn release(self) {
        self.mask();
        self.word(2).write(0);
        self.irq.release();
    }

    fn word(&self, word: usize) -> VolatilePtr<'static, u32> {
        message_word(self.table, self.entry, word)
    }

    /// Lets its messages be sent, that of what came while they were masked among them.
    pub fn unmask(&self) {
        let control = self.word(3);
        control.write(control.read() & !1);
    }

    /// Keeps them back.
    pub fn mask(&self) {
        let control = self.word(3);
        control.write(control.read() | 1);
    }

    /// Has the next ones come to another CPU. Nobody else masks or unmasks them meanwhile:
    ///
    /// ```compile_fail,E0596
    /// fn while_a_handler_has_it(msix: &'static takt_board::pci::Msix) {
    ///     let _ = msix.set_cpu(1);
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it does not run.
    pub fn set_cpu(&mut self, cpu: usize) -> Result<(), Error> {
        let address = message_address(cpu)?;
        let control = self.word(3).read();
        self.mask();
        self.word(0).write(address);
        self.word(1).write(0);
        self.word(3).write(control);
        Ok(())
    }
}
