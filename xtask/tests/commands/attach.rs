//! `attach` at a line on which nothing is as it should be: each has its message and its exit code.

use std::io::{Read, Write};
use std::mem::offset_of;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{BUILD_ID, Done, STATUS, Stage};
use takt_timerlat::stats::{RunState, Status};
use takt_tracer::wire::FrameHeader;
use takt_tracer::wire::line::{
    CHANNEL_END, CHANNEL_HELLO, CHANNEL_MEMORY, End, Hello, MemoryWriter, key,
};

fn frame(channel: u8, seq: u32, payload: &[u8]) -> Vec<u8> {
    let mut header = FrameHeader::for_payload(channel, 0, seq, payload);
    header.sum ^= key(channel, &BUILD_ID);
    [&header.encode(), payload].concat()
}

fn hello(seq: u32, build_id: [u8; 20]) -> Vec<u8> {
    let hello = Hello {
        build_id,
        nr_cpus: 1,
        tsc_hz: 1_000_000_000,
        command_line: b"",
    };
    let line = b"workload=timerlat duration_ns=5000000000 capture=com1";
    frame(CHANNEL_HELLO, seq, &[&hello.encode()[..], line].concat())
}

/// A machine that is in this state.
fn state(state: RunState) -> Vec<u8> {
    let mut payload = [0; 256];
    let mut writer = MemoryWriter::new(&mut payload, STATUS);
    let words = [
        (offset_of!(Status, magic), Status::MAGIC),
        (
            offset_of!(Status, version),
            u64::from(Status::VERSION) | (state as u64) << 32,
        ),
        (offset_of!(Status, nr_cpus), 1),
        (offset_of!(Status, tsc_hz), 1_000_000_000),
    ];
    for (at, word) in words {
        assert!(writer.push(at as u32, word));
    }
    let len = writer.len();
    frame(CHANNEL_MEMORY, 0, &payload[..len])
}

fn end(code: u32) -> Vec<u8> {
    let end = End {
        code,
        first: 0,
        next: 0,
        sent: 0,
    };
    frame(CHANNEL_END, 0, &end.encode())
}

/// `attach` at a line that says this and is closed then, or stays open.
fn attach(stage: &Stage, says: &[u8], is_closed: bool, words: &[&str]) -> Done {
    let socket = stage.path("line");
    let listener = UnixListener::bind(&socket).unwrap();
    let device = format!("unix:{}", socket.display());
    let mut command = stage.xtask("", &["attach", "--image", "image.elf", "--force"]);
    command.args(["-o", "run", "--serial", &device]).args(words);
    thread::scope(|scope| {
        scope.spawn(move || {
            let (mut line, _) = listener.accept().unwrap();
            line.write_all(says).unwrap();
            if !is_closed {
                // It ends with the test that waits for the other end.
                let _ = std::io::copy(&mut line, &mut std::io::sink());
            }
        });
        Done::of(command.output().unwrap())
    })
}

/// Nothing is left of a run that never was.
#[track_caller]
fn no_run(stage: &Stage) {
    let names = stage.list(".");
    assert_eq!(names, ["image.elf", "line"], "{names:?}");
}

#[test]
fn a_line_that_is_not_there() {
    let stage = Stage::new();
    let words = [
        "attach",
        "--image",
        "image.elf",
        "--serial",
        "/dev/ttyNONE9",
    ];
    let done = Done::of(stage.xtask("", &words).output().unwrap());
    done.code(1)
        .complains("cannot open the serial port /dev/ttyNONE9")
        .complains("dialout");
}

#[test]
fn another_speed() {
    let stage = Stage::new();
    let noise: Vec<u8> = (0..600u32).map(|n| (n * 89 + 128) as u8 | 0x80).collect();
    for words in [&[][..], &["--listen"]] {
        let done = attach(&stage, &noise, false, words);
        done.code(1)
            .complains("the machine sends at another speed than 115200 baud")
            .complains("--baud");
        no_run(&stage);
        std::fs::remove_file(stage.path("line")).unwrap();
    }
}

/// A firmware's menu, in code page 437 and in UTF-8, is text.
#[test]
fn a_menu_before_the_boot() {
    let stage = Stage::new();
    let frame = [&[0xc9u8][..], &[0xcd; 78], &[0xbb, b'\r', b'\n']].concat();
    let utf8 = "║ Boot ║══════════════════════════\r\n".repeat(20);
    let menu = [b"\x1b[2J".to_vec(), frame.repeat(8), utf8.into_bytes()].concat();
    let run = [
        hello(0, BUILD_ID),
        state(RunState::Running),
        b"\n*** page fault\n".to_vec(),
        end(0x13),
    ];
    let done = attach(&stage, &[menu, run.concat()].concat(), false, &[]);
    done.code(1)
        .complains("the guest ended in a panic or an exception")
        .complains("*** page fault");
}

/// Who begins to read in the middle of a frame has noise, and then frames.
#[test]
fn the_middle_of_a_frame() {
    let stage = Stage::new();
    let says = [
        vec![0x81; 3000],
        hello(7, BUILD_ID),
        state(RunState::Running),
        end(0x13),
    ];
    let done = attach(&stage, &says.concat(), false, &[]);
    done.code(1)
        .complains("the guest ended in a panic or an exception");
}

/// Neither a run that is under way nor its end is what is listened for.
#[test]
fn the_next_boot_is_listened_for() {
    let stage = Stage::new();
    let says = [
        hello(7, [0x3d; 20]),
        state(RunState::Running),
        end(0x10),
        b"\r\nSeaBIOS\r\n".to_vec(),
        hello(0, BUILD_ID),
        state(RunState::Running),
        end(0x13),
    ];
    let done = attach(&stage, &says.concat(), false, &["--listen"]);
    done.code(1)
        .complains("A run is under way that began before: waiting for the next boot")
        .complains("the guest ended in a panic or an exception");
}

/// Only for one who is not there yet it is waited.
#[test]
fn a_wrong_host() {
    let stage = Stage::new();
    for device in ["tcp:no-such-host.invalid:4321", "tcp:localhost"] {
        let words = [
            "attach",
            "--listen",
            "--image",
            "image.elf",
            "--serial",
            device,
        ];
        let started = Instant::now();
        let done = Done::of(stage.xtask("", &words).output().unwrap());
        assert!(started.elapsed() < Duration::from_secs(30));
        done.code(1).complains("cannot connect to ");
    }
    let device = format!("unix:{}", stage.path("line").display());
    let mut command = stage.xtask("", &["attach", "--listen", "--image", "image.elf"]);
    let mut child = command.args(["--serial", &device]).spawn().unwrap();
    let mut said = [0; 11];
    child
        .stderr
        .as_mut()
        .unwrap()
        .read_exact(&mut said)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(&said, b"Waiting for");
}

#[test]
fn text_and_no_frame() {
    let stage = Stage::new();
    let started = Instant::now();
    let done = attach(&stage, b"Debian GNU/Linux 12\r\nlogin: ", false, &[]);
    assert!(started.elapsed() >= Duration::from_secs(5));
    done.code(1)
        .complains("bytes of text came over")
        .complains("boot it with capture=com1");
    no_run(&stage);
}

#[test]
fn another_image() {
    let stage = Stage::new();
    let done = attach(&stage, &hello(0, [0x3d; 20]), false, &[]);
    done.code(1)
        .complains("the machine runs another image: its build id is 3d3d3d")
        .complains("name the very ELF file");
    no_run(&stage);
}

#[test]
fn a_machine_that_fails_while_it_boots() {
    let stage = Stage::new();
    let says = b"\n*** panic: no room for the image\nat board/src/start.rs:1:1\n";
    let done = attach(&stage, says, true, &["--listen"]);
    done.code(1)
        .complains("before a machine said who it is")
        .complains("*** panic: no room for the image");
    no_run(&stage);
}

#[test]
fn a_cut_cable() {
    let stage = Stage::new();
    let says = [hello(0, BUILD_ID), state(RunState::Running)].concat();
    let done = attach(&stage, &says, true, &[]);
    done.code(1)
        .complains("the serial line was closed before the end of the run")
        .complains("state  running");
    // What came is kept.
    assert!(stage.list("run").contains(&"run.json".to_owned()));
}

#[test]
fn a_machine_that_says_no_more() {
    let stage = Stage::new();
    let says = [hello(0, BUILD_ID), state(RunState::Running)].concat();
    let done = attach(&stage, &says, false, &[]);
    done.code(1)
        .complains("nothing came over the serial line for 8 s");
}

#[test]
fn a_machine_that_begins_anew() {
    let stage = Stage::new();
    let says = [hello(0, BUILD_ID), hello(1, BUILD_ID), hello(0, BUILD_ID)].concat();
    let done = attach(&stage, &says, false, &[]);
    done.code(1).complains("the machine began anew");
}

#[test]
fn the_report_of_a_fault() {
    let stage = Stage::new();
    let mut cut = frame(1, 0, &[0x80; 200]);
    cut.truncate(100);
    let says = [
        hello(0, BUILD_ID),
        state(RunState::Running),
        cut,
        b"\n*** page fault\nwriting 0x10: not mapped\n".to_vec(),
        end(0x13),
    ]
    .concat();
    let done = attach(&stage, &says, false, &[]);
    done.code(1)
        .complains("the guest ended in a panic or an exception")
        .complains("*** page fault");
}
