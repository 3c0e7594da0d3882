//! Tests of the view on hand-made memory.

use super::*;

/// Sparse memory: what was not written is zero.
struct Bytes(Vec<u8>);

impl Memory for Bytes {
    fn read_exact_at(&self, address: u64, buf: &mut [u8]) -> io::Result<()> {
        let at = address as usize;
        let from = self.0.get(at..at + buf.len());
        buf.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Bytes {
    fn zeros() -> Self {
        Self(vec![0; size_of::<Status>()])
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.0[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

#[test]
fn zeros_are_a_guest_that_has_not_come_so_far() {
    let view = StatusView::new(Bytes::zeros(), 0);
    assert_eq!(view.head().unwrap(), None);
    assert_eq!(view.stop().unwrap(), None);
    assert!(view.slots().unwrap().is_empty());
    assert!(view.threads().unwrap().is_empty());
    let none = view.distribution(0, Measure::Irq).unwrap();
    assert_eq!((none.count(), none.min()), (0, None));
}

#[test]
fn a_foreign_version_is_named() {
    let mut bytes = Bytes::zeros();
    bytes.put(0, b"TAKTSTA1");
    bytes.put(offset_of!(Status, version), &9u32.to_le_bytes());
    let error = StatusView::new(bytes, 0).head().unwrap_err().to_string();
    assert!(error.contains("version 9"), "{error}");
}

#[test]
fn samples_are_found_where_the_guest_puts_them() {
    let mut bytes = Bytes::zeros();
    let slot = slot_offset(2);
    let irq = slot + offset_of!(SlotStats, irq);
    bytes.put(slot + offset_of!(SlotStats, active), &[1]);
    bytes.put(slot + offset_of!(SlotStats, cpu), &[2]);
    bytes.put(irq + offset_of!(LatencyStats, count), &[3]);
    bytes.put(irq + offset_of!(LatencyStats, min), &[7]);
    bytes.put(irq + offset_of!(LatencyStats, max), &[9]);
    bytes.put(irq + offset_of!(LatencyStats, sum), &[23]);
    let hist = irq + offset_of!(LatencyStats, hist);
    bytes.put(hist + offset_of!(Histogram, linear) + 7 * 4, &[2]);
    bytes.put(hist + offset_of!(Histogram, linear) + 9 * 4, &[1]);
    let view = StatusView::new(bytes, 0);
    let slots = view.slots().unwrap();
    assert_eq!(slots.len(), 1);
    assert_eq!((slots[0].index, slots[0].cpu, slots[0].irq.max), (2, 2, 9));
    let all = view.distribution(2, Measure::Irq).unwrap();
    assert_eq!(all.iter().collect::<Vec<_>>(), [(7, 2), (9, 1)]);
    assert_eq!((all.count(), all.sum()), (3, 23));
}

#[test]
fn memory_that_ends_early_is_an_error() {
    let view = StatusView::new(Bytes(vec![0; 16]), 0);
    assert!(view.slots().is_err());
}
