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

/// A slot with three samples, of 7, 7 and 9 ns, and one of 600, in the memory of an image of that scale.
fn with_samples(scale: Scale) -> StatusView<Bytes> {
    let size = offset_of!(Status, slots) + MAX_SLOTS * slot_size(scale);
    let mut bytes = Bytes(vec![0; size]);
    bytes.put(
        offset_of!(Status, histogram_bits),
        &scale.linear_bits().to_le_bytes(),
    );
    let slot = slot_offset(scale, 2);
    let irq = latency_offset(scale, 2, Measure::Irq);
    bytes.put(slot + offset_of!(SlotStats, active), &[1]);
    bytes.put(slot + offset_of!(SlotStats, cpu), &[2]);
    bytes.put(irq + offset_of!(LatencyStats, count), &[4]);
    bytes.put(irq + offset_of!(LatencyStats, min), &[7]);
    bytes.put(irq + offset_of!(LatencyStats, max), &601u16.to_le_bytes());
    bytes.put(irq + offset_of!(LatencyStats, sum), &623u16.to_le_bytes());
    let hist = irq + offset_of!(LatencyStats, hist);
    bytes.put(hist + 7 * 4, &[2]);
    bytes.put(hist + 9 * 4, &[1]);
    bytes.put(hist + scale.bucket_of(600) * 4, &[1]);
    StatusView::new(bytes, 0)
}

#[test]
fn samples_are_found_where_the_guest_puts_them() {
    for (bits, last) in [(16, 600), (8, 601), (9, 601), (20, 600)] {
        let scale = Scale::new(bits).unwrap();
        let view = with_samples(scale);
        let slots = view.slots().unwrap();
        assert_eq!(slots.len(), 1);
        assert_eq!(
            (slots[0].index, slots[0].cpu, slots[0].irq.max),
            (2, 2, 601)
        );
        let all = view.distribution(2, Measure::Irq).unwrap();
        assert_eq!(all.iter().collect::<Vec<_>>(), [(7, 2), (9, 1), (last, 1)]);
        assert_eq!((all.count(), all.sum()), (4, 623));
        assert_eq!(all.exact_below(), 1 << bits);
        assert_eq!(view.distribution(2, Measure::Thread).unwrap().count(), 0);
    }
}

#[test]
fn a_scale_that_no_image_has_is_named() {
    let mut bytes = Bytes::zeros();
    bytes.put(offset_of!(Status, histogram_bits), &[25]);
    let view = StatusView::new(bytes, 0);
    let error = view.slots().unwrap_err().to_string();
    assert!(error.contains("25 bits"), "{error}");
    assert!(view.distribution(0, Measure::Irq).is_err());
}

#[test]
fn memory_that_ends_early_is_an_error() {
    let view = StatusView::new(Bytes(vec![0; 16]), 0);
    assert!(view.slots().is_err());
}
