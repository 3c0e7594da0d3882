//! What the handlers of interrupts are called.

use std::collections::BTreeMap;

use super::meta::Role;
use super::record::{Record, Value};
use takt_tracer::wire::KERNEL_IRQS;

/// The names of interrupts' handlers: the kernel's own, and those that records tell.
#[derive(Clone, Debug, Default)]
pub struct Irqs(BTreeMap<u8, String>);

impl Irqs {
    /// Learns from an `irq_name` record.
    pub(super) fn learn(&mut self, record: &Record<'_>) {
        let Role::IrqName { vector, name } = record.event.role else {
            return;
        };
        if let (Some(vector), Some(name)) = (
            record.values.get(vector).and_then(Value::number),
            record.values.get(name),
        ) {
            self.set(vector as u8, &name.text());
        }
    }

    /// Gives a vector's handler a name.
    pub fn set(&mut self, vector: u8, name: &str) {
        self.0.insert(vector, name.into());
    }

    /// The name of a vector's handler, if it is known.
    pub fn name(&self, vector: u8) -> Option<&str> {
        let own = || KERNEL_IRQS.iter().find(|(own, _)| *own == vector);
        match self.0.get(&vector) {
            Some(name) => Some(name),
            None => own().map(|(_, name)| *name),
        }
    }

    /// As [`name`](Self::name); `<...>` if it is not known, as of a thread.
    pub fn shown(&self, vector: u8) -> &str {
        self.name(vector).unwrap_or("<...>")
    }
}
