//! Every format of `trace`, against files: set `OVERWRITE=1` to accept what there is now. Binary formats are held as hex.

use std::fmt::Write;
use std::fs;

use crate::common::{Stage, elf, event, snapshot};
use takt_decode::FrameWriter;
use takt_tracer::wire::{
    CHANNEL_TRACE, COMMIT_RECORD, FILE_MAGIC_TRACE, FileHeader, NEAR_FAR, SubHeader, VERSION,
    checksum,
};

const SUB: usize = 256;

const EVENTS: [(u64, &str); 8] = [
    (
        4,
        "event sched:sched_switch\nclass sched_switch\nlayout core24 0x80\nfield next 8 tid\nfield prev_prio 7 prio\n\
         field next_prio 7 prio\nfield prev_state 2 enum(0=R,1=S,2=T,3=X)\n\
         print prev_comm={current:comm} prev_pid={current:pid} prev_prio={prev_prio} prev_state={prev_state} ==> \
         next_comm={next:comm} next_pid={next:pid} next_prio={next_prio}\n",
    ),
    (
        6,
        "event irq:irq_handler_entry\nclass irq_vector\nlayout core8\nfield vector 8 irq\nprint irq={vector}\n\
         print irq={vector} name={vector:name}\n",
    ),
    (
        8,
        "event irq:irq_handler_exit\nclass irq_vector\nlayout core8\nfield vector 8 irq\nprint irq={vector}\n",
    ),
    (
        10,
        "event sched:thread_name\nclass thread_name\nlayout core8\nfield tid 8 tid\nfield comm * str\n\
         print pid={tid:pid} comm={comm}\n",
    ),
    (
        1,
        "event test:everything\nclass everything\nlayout wide\nfield small 5 i\nfield mask 4 flags(1=A,2=B)\n\
         field context 4 enum(0=irq,1=thread)\nfield hex 12 x\nfield big 64 u\nfield took 32 cycles\nfield text * str\n\
         print small={small} mask={mask} context={context:6} hex={hex} big={big} took={took} \"{text}\" 100%\n",
    ),
    (
        12,
        "event ftrace:kernel_stack\nclass kernel_stack\nlayout core8\nfield caller [32] sym\nprint {caller}\n",
    ),
    (
        3,
        "event test:arrays\nclass arrays\nlayout wide\nfield bytes [8;3] u\nfield small [4;2] i\nfield name * str(6)\n\
         print bytes={bytes} small={small} name={name}\n",
    ),
    (
        0xa001,
        "event timer:timer_start\nclass timer_deadline\nlayout near\nfield timer 11 u\nfield expires 64 cycles\n\
         print timer={timer} expires={expires}\n",
    ),
];

/// A sub-buffer with these records.
fn sub(cpu: u8, seq: u64, ts: u64, lost: u32, current: u8, records: &[&[u32]]) -> Vec<u8> {
    let words: Vec<u8> = records
        .concat()
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let header = SubHeader {
        seq,
        ts,
        lost,
        cpu,
        current,
        ctx: 0xc0,
        version: SubHeader::VERSION,
        commit: SUB as u64 + COMMIT_RECORD * records.len() as u64,
        base: 0,
    };
    let mut bytes = [&header.encode()[..], &words].concat();
    assert!(bytes.len() <= SUB);
    bytes.resize(SUB, 0);
    bytes
}

/// The word of an event with an 8-bit field.
fn core8(id: u8, field: u8, ctx: u8, tid: u8) -> u32 {
    u32::from_le_bytes([id, field, ctx, tid])
}

fn switch(next: u8, prev_prio: u32, next_prio: u32, prev_state: u32) -> u32 {
    4 | u32::from(next) << 8 | prev_prio << 16 | next_prio << 23 | prev_state << 30
}

fn text(text: &str) -> Vec<u32> {
    let mut words = vec![text.len() as u32];
    for bytes in text.as_bytes().chunks(4) {
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        words.push(u32::from_le_bytes(word));
    }
    words
}

/// A run folder: two CPUs, names, switches, interrupts, losses in the middle and at the end.
fn run(stage: &Stage) {
    let meta: Vec<u8> = EVENTS
        .iter()
        .flat_map(|(id, text)| event(*id, text))
        .collect();
    let image = elf(&meta);
    let dir = stage.path("run");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("takt.elf"), &image).unwrap();
    fs::write(dir.join("run.json"), "{}").unwrap();
    let name = [&[1000, core8(10, 3, 0xc0, 3)][..], &text("ctrl, \"x\"")].concat();
    // small -3, mask 7, context 1; hex in a word of its own.
    let fields = 0x1d | 7 << 5 | 1 << 9;
    let everything = [
        &[
            1100,
            1 | 0x9a << 16 | 3 << 24,
            fields | 0xabc << 13,
            5,
            0x8000_0000,
            4000,
        ][..],
        &text("ende\n"),
    ]
    .concat();
    let arrays = [
        &[
            3_000_100,
            3 | 0xc0 << 16 | 1 << 24,
            0x0003_0201 | 7 << 24 | 0x8 << 28,
        ][..],
        // A byte more than it may have.
        &text("boundsX"),
    ]
    .concat();
    // Deadlines of this half of the clock and of another.
    let start = |timer: u32| 0xa001 | timer << 1 | 0x80 << 16 | 3 << 24;
    let near = [2_000_200, start(256), 2_500_000];
    let far = [2_000_300, start(2047) | NEAR_FAR, 2_000_000, 3];
    let stack = [3_000_200, core8(12, 0, 0x81, 1), 8, 0x20_1000, 0x20_1234];
    let subs = [
        sub(
            0,
            0,
            900,
            0,
            3,
            &[
                &name,
                &[1050, core8(6, 80, 0x90, 3)],
                &everything,
                &[1200, core8(8, 80, 0x10, 3)],
                &[1300, switch(0, 4, 120, 1)],
            ],
        ),
        sub(1, 0, 950, 0, 1, &[&[1060, core8(6, 0x50, 0xb1, 1)]]),
        sub(1, 1, 30_000, 7, 1, &[&[31_000, core8(8, 0x50, 0x81, 1)]]),
        sub(1, 4, 40_000, 7, 1, &[&[41_000, core8(6, 0x51, 0x81, 1)]]),
        sub(
            0,
            1,
            2_000_000,
            0,
            0,
            &[&[2_000_100, switch(3, 120, 4, 0)], &near, &far],
        ),
        sub(1, 5, 3_000_000, 12, 1, &[&arrays, &stack]),
    ];
    let header = FileHeader {
        magic: FILE_MAGIC_TRACE,
        version: VERSION.into(),
        tsc_hz: 2_000_000_000,
        image: checksum(&image),
        sub_size: SUB as u32,
        nr_cpus: 2,
        nr_subs: 0,
    };
    let mut writer = FrameWriter::new(Vec::new(), &header).unwrap();
    for sub in subs {
        writer.frame(CHANNEL_TRACE, sub[20], &sub).unwrap();
    }
    fs::write(dir.join("trace.bin"), writer.finish().unwrap()).unwrap();
}

/// Lines of sixteen bytes; those of zeros only are left out.
fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (number, line) in bytes.chunks(16).enumerate() {
        if line.iter().all(|byte| *byte == 0) {
            continue;
        }
        let byte = |byte: &u8| format!(" {byte:02x}");
        let hex: String = line.iter().map(byte).collect();
        let text = line.iter().map(|byte| char::from(*byte));
        let text: String = text
            .map(|c| if c.is_ascii_graphic() { c } else { '.' })
            .collect();
        writeln!(out, "{:06x}{hex:48}  {text}", 16 * number).unwrap();
    }
    writeln!(out, "{:06x}", bytes.len()).unwrap();
    out
}

fn export(stage: &Stage, format: &str) -> std::path::PathBuf {
    let path = stage.path(&format!("out-{format}"));
    let mut command = stage.xtask("", &["trace", "run", "--format", format, "-o"]);
    crate::common::Done::of(command.arg(&path).output().unwrap()).code(0);
    path
}

#[test]
fn every_format_is_as_it_was() {
    let stage = Stage::new();
    run(&stage);
    for (format, file) in [
        ("text", "trace.txt"),
        ("latency", "latency.txt"),
        ("json", "trace.jsonl"),
        ("csv", "trace.csv"),
        ("chrome", "chrome.json"),
        ("flamegraph", "flamegraph.txt"),
    ] {
        snapshot(file, &fs::read_to_string(export(&stage, format)).unwrap());
    }
    for (format, file) in [("trace.dat", "trace.dat.hex"), ("perfetto", "perfetto.hex")] {
        snapshot(file, &hex(&fs::read(export(&stage, format)).unwrap()));
    }
    let ctf = export(&stage, "ctf");
    assert_eq!(crate::common::list(&ctf), ["cpu0", "cpu1", "metadata"]);
    snapshot(
        "ctf-metadata.txt",
        &fs::read_to_string(ctf.join("metadata")).unwrap(),
    );
    for cpu in ["cpu0", "cpu1"] {
        snapshot(
            &format!("ctf-{cpu}.hex"),
            &hex(&fs::read(ctf.join(cpu)).unwrap()),
        );
    }
}

#[test]
fn folders_are_left_alone_and_stdout_is_for_text() {
    let stage = Stage::new();
    run(&stage);
    let trace = |args: &[&str]| {
        let mut command = stage.xtask("", &["trace", "run"]);
        crate::common::Done::of(command.args(args).output().unwrap())
    };
    trace(&["-f", "ctf"]).code(1).complains("name it: -o DIR");
    fs::create_dir(stage.path("full")).unwrap();
    fs::write(stage.path("full/thesis.tex"), "").unwrap();
    trace(&["-f", "ctf", "-o", "full"])
        .code(1)
        .complains("full is not empty");
    fs::create_dir(stage.path("empty")).unwrap();
    trace(&["-f", "ctf", "-o", "empty/"]).code(0);
    assert_eq!(stage.list("empty"), ["cpu0", "cpu1", "metadata"]);
    trace(&["-f", "trace.dat", "-o", "there/is/none"]).code(1);
    assert!(!stage.path("full.part").exists() && !stage.path("empty.part").exists());
}

#[test]
fn devices_and_links_are_written_to_and_not_replaced() {
    let stage = Stage::new();
    run(&stage);
    let trace = |to: &str| {
        let mut command = stage.xtask("", &["trace", "run", "-f", "csv", "-o", to]);
        crate::common::Done::of(command.output().unwrap())
    };
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, stage.path(name)).unwrap();
    let is_link = |name: &str| stage.path(name).symlink_metadata().unwrap().is_symlink();
    link("/dev/full", "no-room");
    trace("no-room").code(1).complains("No space left");
    link("/dev/stdout", "shown");
    trace("shown").code(0).says("ts_ns,cpu,pid,");
    fs::write(stage.path("file"), "old").unwrap();
    link("file", "alias");
    trace("alias").code(0);
    assert!(is_link("no-room") && is_link("shown") && is_link("alias"));
    let text = fs::read_to_string(stage.path("file")).unwrap();
    assert!(text.starts_with("ts_ns,cpu,pid,"), "{text}");
    assert!(!stage.path("no-room.part").exists() && !stage.path("file.part").exists());
}

#[test]
fn filters_choose_and_show_their_mistakes() {
    let stage = Stage::new();
    run(&stage);
    let trace = |args: &[&str]| {
        let mut command = stage.xtask("", &["trace", "run", "-f", "csv"]);
        crate::common::Done::of(command.args(args).output().unwrap())
    };
    let events = |args: &[&str]| {
        let done = trace(args);
        let lines = done.code(0).stdout.lines().skip(1);
        lines.filter(|line| !line.contains(",lost,")).count()
    };
    assert_eq!(events(&[]), 13);
    assert_eq!(events(&["--filter", "vector == 80"]), 4);
    assert_eq!(events(&["--filter", "next_comm ~ \"ctrl*\""]), 1);
    assert_eq!(
        events(&[
            "--filter",
            "sched_switch: next_pid != 0",
            "--filter",
            "CPU == 0"
        ]),
        7
    );
    // Whatever the record has of it.
    assert_eq!(events(&["--filter", "expires == 1250000"]), 1);
    assert_eq!(events(&["--filter", "expires > 6443450943"]), 1);
    trace(&["--filter", "prio <> 10"])
        .code(1)
        .complains("  prio <> 10\n        ^");
    trace(&["--filter", "prio < 10"])
        .code(1)
        .complains("no event has a field `prio`");
    trace(&["--filter", "arrays: CPU == 1 && small == 7"])
        .code(1)
        .complains("`small` is an array")
        .complains("  arrays: CPU == 1 && small == 7\n                      ^");
}
