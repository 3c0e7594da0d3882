//! Lines that damage what they carry.

use std::fs;
use std::io::{ErrorKind, Read};

use proptest::prelude::*;
use takt_timerlat::stats::view::Memory as _;
use takt_tracer::wire::line::{BUILD_ID, MemoryWriter, key};

use super::*;
use takt_guest::frames::FrameScanner;

const BASE: u64 = 0x10_0000;
const NR_RESULTS: u32 = 6;
const NR_TRACE: u32 = 40;
const NR_LOG: u32 = 20;
const SUB: usize = 1024;

fn frame(channel: u8, seq: u32, payload: &[u8]) -> Vec<u8> {
    let mut header = FrameHeader::for_payload(channel, 0, seq, payload);
    header.sum ^= key(channel, &[7; BUILD_ID]);
    [&header.encode(), payload].concat()
}

fn hello(seq: u32) -> Vec<u8> {
    let hello = Hello {
        build_id: [7; BUILD_ID],
        nr_cpus: 1,
        tsc_hz: 1_000_000_000,
        command_line: b"",
    };
    let payload = [&hello.encode()[..], b"workload=timerlat capture=com1"].concat();
    frame(CHANNEL_HELLO, seq, &payload)
}

fn memory(seq: u32, offset: u32, words: &[u64]) -> Vec<u8> {
    let mut payload = [0; 1024];
    let mut writer = MemoryWriter::new(&mut payload, BASE);
    for (at, word) in (offset..).step_by(8).zip(words) {
        assert!(writer.push(at, *word));
    }
    let len = writer.len();
    frame(CHANNEL_MEMORY, seq, &payload[..len])
}

fn end(seq: u32, first: u32) -> Vec<u8> {
    let end = End {
        code: 0x10,
        first,
        next: first + NR_RESULTS,
        sent: NR_LOG + NR_TRACE,
    };
    frame(CHANNEL_END, seq, &end.encode())
}

fn results(first: u32) -> Vec<u8> {
    let pieces = (0..NR_RESULTS).map(|n| memory(first + n, n * 512, &[u64::from(n) + 1; 20]));
    pieces.flatten().collect()
}

/// A whole run: text of a boot loader, a greeting, figures, log, results, trace, the end.
fn run() -> Vec<u8> {
    let log = (0..NR_LOG).flat_map(|n| frame(CHANNEL_LOG, n, &[n as u8; 50]));
    let trace = (0..NR_TRACE).flat_map(|n| frame(CHANNEL_TRACE, n, &[n as u8; SUB]));
    let text = b"GRUB loading.\r\nWelcome to GRUB!\r\n\r\n".to_vec();
    [
        text,
        hello(0),
        memory(0, 0, &[9; 10]),
        log.collect(),
        results(1),
        trace.collect(),
        end(0, 1),
    ]
    .concat()
}

/// What a task knows how to make: it does not know the image's build id.
fn forged(channel: u8, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader::for_payload(channel, 0, 0, payload);
    [&header.encode(), payload].concat()
}

#[test]
fn a_frame_within_a_frame_is_none() {
    let end = End {
        code: 0x10,
        first: 0,
        next: 0,
        sent: 0,
    };
    for forged in [
        forged(CHANNEL_END, &end.encode()),
        forged(CHANNEL_LOG, b"by the kernel"),
        forged(CHANNEL_MEMORY, &[1; 64]),
        forged(CHANNEL_TRACE, &[1; SUB]),
    ] {
        let around = frame(
            CHANNEL_TRACE,
            0,
            &[&[1; 400], &forged[..], &[1; 400]].concat(),
        );
        // Begun in the middle, before the greeting and behind it.
        let bytes = [&around[100..], &hello(0), &around[100..], &around].concat();
        let done = receive(&bytes).unwrap();
        assert_eq!((done.receiver.end(), done.answer), (None, None));
        assert_eq!(done.receiver.nr_taken(), 1);
        assert!(done.receiver.memory.is_empty());
        // As it lies in a file.
        let kept = fs::read(done.dir.path().join("capture.bin")).unwrap();
        let mut kept = FrameScanner::new(&kept[..]);
        let (_, payload) = kept.next().unwrap().unwrap();
        assert_eq!(payload, &around[FrameHeader::SIZE..]);
    }
}

/// A line on which bytes come a few at a time; behind them nothing comes.
struct Line<'b>(&'b [u8]);

impl Read for Line<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let most = bytes.len().min(16);
        self.0.read(&mut bytes[..most])
    }
}

struct Done {
    dir: tempfile::TempDir,
    receiver: Receiver,
    damage: Damage,
    answer: Option<u8>,
}

fn receive(bytes: &[u8]) -> Result<Done> {
    let dir = tempfile::tempdir().unwrap();
    let image = Image {
        path: "takt.elf".into(),
        build_id: vec![7; BUILD_ID],
        is_named: true,
    };
    let mut receiver = Receiver::new(image, dir.path(), &dir.path().join("capture.bin")).unwrap();
    let mut frames = FrameScanner::of_line(Line(bytes), is_plausible, vec![7; BUILD_ID]);
    let (mut answer, mut pauses) = (None, 0);
    // What is left of a frame is given up as often as the line is silent: each time it is less.
    while pauses < 10_000 {
        match frames.next() {
            Ok(Some((header, payload))) => {
                if let News::Answer(byte) = receiver.take(&header, payload)? {
                    answer = Some(byte);
                }
            }
            Ok(None) => unreachable!("the line is not closed"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                let before = frames.damage();
                frames.give_up();
                pauses = if frames.damage() == before {
                    10_000
                } else {
                    pauses + 1
                };
            }
        }
        let stray = frames.take_stray();
        receiver.stray(&stray, false).unwrap();
    }
    let damage = receiver.damage(frames.damage());
    Ok(Done {
        dir,
        receiver,
        damage,
        answer,
    })
}

fn word(receiver: &Receiver, address: u64) -> u64 {
    let mut bytes = [0; 8];
    receiver.ram().read_exact_at(address, &mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
fn a_sound_line_carries_everything() {
    let done = receive(&run()).unwrap();
    assert_eq!(done.answer, Some(TAKEN));
    assert_eq!((done.receiver.lost(), done.damage), (0, Damage::default()));
    let greeting = done.receiver.greeting().unwrap();
    assert_eq!(greeting.command_line, "workload=timerlat capture=com1");
    for n in 0..NR_RESULTS {
        assert_eq!(
            word(&done.receiver, BASE + u64::from(n) * 512),
            u64::from(n) + 1
        );
    }
    let text = std::fs::read_to_string(done.dir.path().join(SERIAL)).unwrap();
    assert!(text.ends_with("Welcome to GRUB!\r\n\r\n"), "{text}");
}

#[test]
fn what_was_sent_while_the_run_went_on_is_no_result() {
    let bytes = [hello(0), memory(0, 4096, &[5]), results(1), end(0, 1)].concat();
    let done = receive(&bytes).unwrap();
    assert_eq!(word(&done.receiver, BASE), 1);
    assert_eq!(word(&done.receiver, BASE + 4096), 0);
}

#[test]
fn results_that_are_damaged_are_asked_for_once_more() {
    let mut bytes = [hello(0), results(0), end(0, 0)].concat();
    let at = hello(0).len() + 100;
    bytes[at] ^= 0x20;
    let done = receive(&bytes).unwrap();
    assert_eq!(done.answer, Some(AGAIN));
    assert!(done.receiver.end().is_none());
    bytes.extend(results(NR_RESULTS));
    bytes.extend(end(1, NR_RESULTS));
    let done = receive(&bytes).unwrap();
    assert_eq!(done.answer, Some(TAKEN));
    assert_eq!(word(&done.receiver, BASE + 512), 2);
}

/// On a line so bad that never all come at once, what has come once is enough; unless it was something else.
#[test]
fn results_are_put_together_from_all_times_they_were_sent() {
    let greeting = hello(0);
    let damaged = |first, frame: usize| {
        let mut bytes = results(first);
        let len = bytes.len() / NR_RESULTS as usize;
        bytes[frame * len + len / 2] ^= 0x20;
        bytes
    };
    let twice = |number| {
        [
            greeting.clone(),
            damaged(0, 1),
            end(0, 0),
            damaged(number, 4),
        ]
        .concat()
    };
    let bytes = [twice(NR_RESULTS), end(1, NR_RESULTS)].concat();
    let done = receive(&bytes).unwrap();
    assert_eq!(done.answer, Some(TAKEN));
    for n in 0..u64::from(NR_RESULTS) {
        assert_eq!(word(&done.receiver, BASE + n * 512), n + 1);
    }
    // The second time there is a frame more.
    let more = End {
        code: 0x10,
        first: NR_RESULTS,
        next: 2 * NR_RESULTS + 1,
        sent: 0,
    };
    let bytes = [
        twice(NR_RESULTS),
        memory(2 * NR_RESULTS, 8192, &[1]),
        frame(CHANNEL_END, 1, &more.encode()),
    ];
    assert_eq!(receive(&bytes.concat()).unwrap().answer, Some(AGAIN));
    // As many frames, but others.
    let mut bytes = [twice(NR_RESULTS), end(1, NR_RESULTS)].concat();
    let second = memory(NR_RESULTS + 2, 2 * 512, &[3; 20]);
    let at = bytes.windows(second.len()).position(|it| it == second);
    let other = memory(NR_RESULTS + 2, 2 * 512, &[4; 20]);
    bytes[at.unwrap()..][..other.len()].copy_from_slice(&other);
    assert_eq!(receive(&bytes).unwrap().answer, Some(AGAIN));
}

#[test]
fn a_damaged_length_stalls_nothing() {
    // The last frame of all, to which nothing comes that it could wait for; then it is sent once more.
    let sound = run();
    let at = sound.len() - end(0, 1).len() + 8;
    for damage in [[0xff, 0x0f], [0, 0], [0xff, 0xff]] {
        let mut bytes = sound.clone();
        bytes[at..at + 2].copy_from_slice(&damage);
        assert_eq!(receive(&bytes).unwrap().answer, None);
        bytes.extend(end(1, 1));
        let done = receive(&bytes).unwrap();
        assert_eq!((done.answer, done.receiver.lost()), (Some(TAKEN), 0));
        assert_eq!(done.damage.frames, 1);
    }
    // In the middle, it takes no more with it than it says at most.
    let mut bytes = sound.clone();
    let trace = frame(CHANNEL_TRACE, 3, &[3; SUB]);
    let at = sound
        .windows(trace.len())
        .position(|it| it == trace)
        .unwrap();
    bytes[at + 9] = 0x7f;
    let done = receive(&bytes).unwrap();
    assert_eq!((done.answer, done.receiver.lost()), (Some(TAKEN), 1));
}

#[test]
fn another_image_and_another_version_are_refused() {
    let mut other = hello(0);
    other[FrameHeader::SIZE] ^= 1;
    let other = frame(CHANNEL_HELLO, 0, &other[FrameHeader::SIZE..]);
    let error = format!("{:#}", receive(&other).err().unwrap());
    assert!(
        error.contains("runs another image: its build id is 0607"),
        "{error}"
    );
    let mut header = FrameHeader::for_payload(CHANNEL_LOG, 0, 0, b"");
    header.version = VERSION + 1;
    header.sum = header.sum_over(b"") ^ key(CHANNEL_LOG, &[7; BUILD_ID]);
    let error = receive(&header.encode()).err().unwrap().to_string();
    assert!(error.contains("version 3"), "{error}");
}

#[test]
fn a_machine_that_begins_anew_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let image = Image {
        path: "takt.elf".into(),
        build_id: vec![7; BUILD_ID],
        is_named: true,
    };
    let mut receiver = Receiver::new(image, dir.path(), &dir.path().join("capture.bin")).unwrap();
    let mut greet = |seq| {
        let bytes = hello(seq);
        let header = FrameHeader::decode(&bytes).unwrap();
        receiver.take(&header, &bytes[FrameHeader::SIZE..]).unwrap()
    };
    assert_eq!(greet(4), News::None);
    assert_eq!(greet(6), News::None);
    assert_eq!(greet(0), News::Rebooted);
}

/// What a line does to the bytes at a place.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Dropped,
    Flipped(u8),
    Burst,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::Dropped),
        (0u8..8).prop_map(Fault::Flipped),
        Just(Fault::Burst),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Each fault costs a frame or, where it is between two, both; all that is lost is counted.
    #[test]
    fn losses_are_bounded_and_counted(faults in prop::collection::vec((any::<prop::sample::Index>(), fault()), 1..16)) {
        let mut bytes = run();
        for (at, fault) in &faults {
            let at = at.index(bytes.len());
            match fault {
                Fault::Dropped => {
                    bytes.remove(at);
                }
                Fault::Flipped(bit) => bytes[at] ^= 1 << bit,
                Fault::Burst => {
                    let end = bytes.len().min(at + 16);
                    bytes[at..end].iter_mut().for_each(|byte| *byte ^= 0xa5);
                }
            }
        }
        // Until it is answered, the machine sends its greeting and its end again.
        for number in 1..3 {
            bytes.extend(hello(number));
        }
        bytes.extend(results(1 + NR_RESULTS));
        bytes.extend(end(1, 1 + NR_RESULTS));
        let done = receive(&bytes).unwrap();
        prop_assert_eq!(done.answer, Some(TAKEN));
        let lost = done.receiver.lost();
        prop_assert!(lost <= 2 * faults.len() as u64, "{} lost by {:?}", lost, faults);
        prop_assert_eq!(lost, u64::from(NR_LOG + NR_TRACE - done.receiver.nr_taken()));
        for n in 0..NR_RESULTS {
            prop_assert_eq!(word(&done.receiver, BASE + u64::from(n) * 512), u64::from(n) + 1);
        }
    }
}
