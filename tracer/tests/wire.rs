//! The wire format both ways.

use proptest::prelude::*;
use takt_tracer::wire::{
    CHANNEL_LOG, CHANNEL_TRACE, COMMIT_RECORD, Event, FILE_MAGIC_LOG, FILE_MAGIC_TRACE, FileHeader,
    FrameHeader, NEAR_FAR, SUB_COMMIT, SUB_HEADER, SubHeader, Sum, VERSION, checksum, commit_of,
    event_of,
};

#[test]
fn the_layout_is_that_of_the_document() {
    let header = SubHeader {
        seq: 0x0807_0605_0403_0201,
        ts: 0x1817_1615_1413_1211,
        lost: 0x2423_2221,
        cpu: 0x31,
        current: 0x32,
        ctx: 0x33,
        version: 0x34,
        commit: 0x4847_4645_4443_4241,
        base: 0x5857_5655_5453_5251,
    };
    let bytes = header.encode();
    assert_eq!(bytes.len(), SUB_HEADER as usize);
    assert_eq!(bytes[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(
        bytes[16..24],
        [0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34]
    );
    assert_eq!(bytes[SUB_COMMIT as usize], 0x41);
    assert_eq!(bytes[32], 0x51);

    let frame = FrameHeader {
        channel: 1,
        cpu: 2,
        version: 3,
        len: 4,
        seq: 5,
        sum: 6,
    }
    .encode();
    assert_eq!(
        &frame[..16],
        b"TKF1\x01\x02\x03\x00\x04\x00\x00\x00\x05\x00\x00\x00"
    );
    let file = FileHeader {
        magic: FILE_MAGIC_LOG,
        version: 1,
        tsc_hz: 2,
        image: 3,
        sub_size: 4,
        nr_cpus: 5,
        nr_subs: 6,
    }
    .encode();
    assert_eq!(&file[..16], b"TAKTLOG1\x40\x00\x00\x00\x01\x00\x00\x00");
    let numbers = (file[16], file[24], file[32], file[36], file[40]);
    assert_eq!(numbers, (2, 3, 4, 5, 6));
    assert_eq!(file[41..], [0; 23]);
}

#[test]
fn the_sum_is_fixed_for_ever() {
    // A change of these is a change of the format.
    assert_eq!(checksum(b""), 0xa4c8_ed4d_5832_5546);
    let frame = FrameHeader {
        version: 1,
        ..FrameHeader::for_payload(CHANNEL_LOG, 0, 0, b"takt")
    };
    assert_eq!(frame.sum_over(b"takt"), 0xfcb9_fcce_a892_d50f);
}

#[test]
fn the_low_byte_of_the_word_says_what_it_is() {
    assert_eq!(event_of(0xffff_ff00), Event::Padding);
    assert_eq!(event_of(0xffff_fffe), Event::Core(0xfe));
    assert_eq!(event_of(0xffff_1235), Event::Wide(0x1235));
    assert_eq!(event_of(0xffff_7fff), Event::Wide(0x7fff));
    for id in [0x8001, 0xa001, 0xc001, 0xe001] {
        let near = |is_far| Event::Near { id, is_far };
        assert_eq!(event_of(u32::from(id)), near(false));
        assert_eq!(event_of(0xffff_0ffe | u32::from(id)), near(false));
        assert_eq!(event_of(NEAR_FAR | u32::from(id)), near(true));
        assert_eq!(event_of(0xffff_1ffe | u32::from(id)), near(true));
        assert_eq!(near(true).id(), u32::from(id));
    }
    assert_eq!(commit_of(8), 0x0100_0008);
}

proptest! {
    #[test]
    fn sub_buffer_headers_both_ways(
        (seq, ts, commit, base) in any::<(u64, u64, u64, u64)>(),
        (lost, cpu, current, ctx, version) in any::<(u32, u8, u8, u8, u8)>(),
        cut in 0..SUB_HEADER as usize,
    ) {
        let header = SubHeader { seq, ts, lost, cpu, current, ctx, version, commit, base };
        prop_assert_eq!(SubHeader::decode(&header.encode()), Some(header));
        prop_assert_eq!(SubHeader::decode(&header.encode()[..cut]), None);
    }

    #[test]
    fn the_commit_counter_wraps_without_loss(base in any::<u64>(), records in 0u64..1 << 20, bytes in 40u64..1 << 23) {
        let commit = base.wrapping_add(records * COMMIT_RECORD).wrapping_add(bytes);
        let header = SubHeader { base, commit, ..SubHeader::default() };
        prop_assert_eq!((header.records(), u64::from(header.committed())), (records, bytes));
    }

    #[test]
    fn frame_headers_both_ways(
        (channel, cpu, seq) in any::<(u8, u8, u32)>(),
        payload in prop::collection::vec(any::<u8>(), 0..100),
        cut in 0..FrameHeader::SIZE,
    ) {
        let header = FrameHeader::for_payload(channel, cpu, seq, &payload);
        let bytes = header.encode();
        prop_assert_eq!(FrameHeader::decode(&bytes), Some(header));
        prop_assert_eq!(FrameHeader::decode(&bytes[..cut]), None);
        prop_assert_eq!(header.sum, header.sum_over(&payload));
        prop_assert_eq!(header.version, VERSION);
    }

    #[test]
    fn file_headers_both_ways(
        (version, tsc_hz, image, sub_size, nr_cpus, nr_subs) in any::<(u32, u64, u64, u32, u32, u32)>(),
        cut in 0..FileHeader::SIZE,
    ) {
        let header = FileHeader { magic: FILE_MAGIC_TRACE, version, tsc_hz, image, sub_size, nr_cpus, nr_subs };
        let bytes = header.encode();
        prop_assert_eq!(FileHeader::decode(&bytes), Some((header, 64)));
        prop_assert_eq!(FileHeader::decode(&bytes[..cut]), None);
    }

    #[test]
    fn any_single_damaged_word_changes_the_sum(
        mut words in prop::collection::vec(any::<u64>(), 1..64),
        at in any::<prop::sample::Index>(),
        damage in 1..=u64::MAX,
    ) {
        let sum = |words: &[u64]| words.iter().fold(Sum::new(), |sum, word| sum.word(*word)).value();
        let before = sum(&words);
        let at = at.index(words.len());
        words[at] ^= damage;
        prop_assert_ne!(before, sum(&words));
    }

    #[test]
    fn a_frame_knows_any_damaged_byte(
        payload in prop::collection::vec(any::<u8>(), 0..100),
        at in any::<prop::sample::Index>(),
        damage in 1..=u8::MAX,
    ) {
        let header = FrameHeader::for_payload(CHANNEL_TRACE, 1, 7, &payload);
        let mut bytes = [&header.encode()[..], &payload].concat();
        let at = at.index(bytes.len());
        bytes[at] ^= damage;
        let good = FrameHeader::decode(&bytes).is_some_and(|header| {
            header.len as usize == payload.len() && header.sum_over(&bytes[FrameHeader::SIZE..]) == header.sum
        });
        prop_assert!(!good);
    }

    #[test]
    fn trailing_zeros_change_the_checksum(bytes in prop::collection::vec(any::<u8>(), 0..40), zeros in 1usize..20) {
        let longer = [&bytes[..], &vec![0; zeros]].concat();
        prop_assert_ne!(checksum(&bytes), checksum(&longer));
    }

    #[test]
    fn a_sum_may_be_taken_in_parts(bytes in prop::collection::vec(any::<u8>(), 0..100), cut in 0usize..12) {
        let cut = (cut * 8).min(bytes.len() / 8 * 8);
        let parts = Sum::new().bytes(&bytes[..cut]).bytes(&bytes[cut..]);
        prop_assert_eq!(parts, Sum::new().bytes(&bytes));
    }
}
