//! A stage for the tests of the binary: a folder, a fake image, a fake QEMU.

pub(crate) mod linux;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use object_write::write::{Object, StandardSection, Symbol, SymbolSection};
use object_write::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};
use tempfile::TempDir;

/// Where the fake image's blocks lie in the guest's RAM.
pub(crate) const STATUS: u64 = 0x40_0000;
const RTT: u64 = 0x20_0000;
/// Where it counts lost frames, and log messages without room.
const LOST_FRAMES: u64 = 0x3f_0000;
const LOG_DROPPED: u64 = 0x3f_0004;
/// Where each CPU's memory lies, how large it is, where in it the ring's control words and the running thread are; the
/// shape of the ring.
const PERCPU: u64 = 0x30_4000;
const PERCPU_SIZE: u64 = 0x2000;
const PERCPU_CONTROL: u64 = 0x1000;
const PERCPU_TID: u64 = 0x1800;
const SUB_SIZE: u64 = 128;
const NR_SUBS: u64 = 4;

/// Its build id.
pub(crate) const BUILD_ID: [u8; 20] = [0xb1; 20];

/// How many CPUs, and so idle threads, it could have.
const MAX_CPUS: u64 = 2;

/// Log messages of the fake image, by index from 1.
const MESSAGES: [(&str, &str); 3] = [
    ("defmt_info", "measuring"),
    ("defmt_warn", "about to hang"),
    ("defmt_error", "no such workload"),
];

/// A stage.
pub(crate) struct Stage {
    dir: TempDir,
    /// Where its runs are kept: neither among the user's nor on the stage.
    history: TempDir,
}

impl Stage {
    /// Sets it up.
    pub(crate) fn new() -> Self {
        let stage = Self {
            dir: tempfile::tempdir().unwrap(),
            history: tempfile::tempdir().unwrap(),
        };
        fs::write(stage.path("image.elf"), image()).unwrap();
        stage
    }

    /// A path on it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `xtask` with these arguments, a fake QEMU and this guest.
    pub(crate) fn xtask(&self, guest: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .args(args)
            .env("TAKT_QEMU", env!("CARGO_BIN_EXE_fake-qemu"))
            .env("FAKE_GUEST", guest)
            .env("FAKE_GUEST_PID", self.path("pid"))
            .env("LANG", "C.UTF-8")
            .env("NO_COLOR", "1")
            .env("TAKT_HISTORY", self.history.path())
            .env_remove("LC_ALL")
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// `xtask latency-run` of the fake image into the folder `run`, by TCG.
    pub(crate) fn latency_run(&self, guest: &str, args: &[&str]) -> Command {
        let mut command = self.xtask(guest, &["latency-run", "--image", "image.elf"]);
        // One folder for all runs of a test.
        command.args(["-o", "run", "--force"]);
        command.args(["--accel", "tcg"]).args(args);
        if !args.contains(&"-e") {
            command.args(["-e", "fake"]);
        }
        command
    }

    /// Runs it.
    pub(crate) fn run(&self, guest: &str, args: &[&str]) -> Done {
        Done::of(self.latency_run(guest, args).output().unwrap())
    }

    /// Whether the fake QEMU is gone.
    pub(crate) fn is_qemu_gone(&self) -> bool {
        let pid = fs::read_to_string(self.path("pid")).unwrap();
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
            return true;
        };
        // A process that nobody waits for yet is gone as well.
        status
            .lines()
            .any(|line| line.starts_with("State:") && line.contains('Z'))
    }

    /// Names in a folder of the stage, sorted, hidden ones included.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        list(&self.path(name))
    }
}

/// Names in a folder, sorted.
pub(crate) fn list(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// A command that is over.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    /// Takes the output as text.
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Demands an exit code.
    #[track_caller]
    pub(crate) fn code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Demands a text on stdout.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Self {
        assert!(self.stdout.contains(text), "no `{text}` in {self:#?}");
        self
    }

    /// Demands a text on stderr.
    #[track_caller]
    pub(crate) fn complains(&self, text: &str) -> &Self {
        assert!(self.stderr.contains(text), "no `{text}` in {self:#?}");
        self
    }
}

/// The image that the fake guest plays.
fn image() -> Vec<u8> {
    elf(&event(
        1,
        "event fake:tick\nclass tick\nlayout wide\nfield n 32 u\nprint n={n}\n",
    ))
}

/// An ELF file with the symbols of an image, log messages in raw encoding and these event descriptions.
pub(crate) fn elf(events: &[u8]) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let text = object.section_id(StandardSection::Text);
    object.append_section_data(text, &[0xf4], 16);
    let note = object.add_section(
        Vec::new(),
        b".note.gnu.build-id".to_vec(),
        SectionKind::Note,
    );
    // Length of the name and of the id, type 3.
    let head = [4u32, 20, 3].map(u32::to_le_bytes).concat();
    object.append_section_data(note, &[&head[..], b"GNU\0", &BUILD_ID].concat(), 4);
    for (name, address) in [
        ("TAKT_STATUS", STATUS),
        ("_SEGGER_RTT", RTT),
        ("TAKT_LOST_FRAMES", LOST_FRAMES),
        ("TAKT_LOG_DROPPED", LOG_DROPPED),
        ("takt_max_cpus", MAX_CPUS),
        ("takt_percpu", PERCPU),
        ("takt_percpu_size", PERCPU_SIZE),
        ("takt_percpu_control", PERCPU_CONTROL),
        ("takt_percpu_tid", PERCPU_TID),
        ("takt_trace_sub_size", SUB_SIZE),
        ("takt_trace_nr_subs", NR_SUBS),
    ] {
        object.add_symbol(symbol(name, address, SymbolSection::Absolute));
    }
    for name in ["_defmt_version_ = 4", "_defmt_encoding_ = raw"] {
        object.add_symbol(symbol(name, 0, SymbolSection::Absolute));
    }
    let defmt = object.add_section(Vec::new(), b".defmt".to_vec(), SectionKind::Other);
    object.append_section_data(defmt, &[0; 8], 1);
    for (index, (tag, message)) in (1..).zip(MESSAGES) {
        let name = format!(
            r#"{{"package":"fake","tag":"{tag}","data":"{message}","disambiguator":"0","crate_name":"fake"}}"#
        );
        object.add_symbol(symbol(&name, index, SymbolSection::Section(defmt)));
    }
    let meta = object.add_section(Vec::new(), b".takt.meta".to_vec(), SectionKind::Other);
    object.append_section_data(meta, events, 8);
    object.write().unwrap()
}

/// An entry of the event descriptions.
pub(crate) fn event(id: u64, text: &str) -> Vec<u8> {
    let mut entry = [id.to_le_bytes(), (text.len() as u64).to_le_bytes()].concat();
    entry.extend(text.bytes());
    entry.resize(entry.len().next_multiple_of(8), 0);
    entry
}

fn symbol(name: &str, value: u64, section: SymbolSection) -> Symbol {
    Symbol {
        name: name.as_bytes().to_vec(),
        value,
        size: 1,
        kind: SymbolKind::Data,
        scope: SymbolScope::Dynamic,
        weak: false,
        section,
        flags: SymbolFlags::None,
    }
}

/// Demands that this is what the file of that name in `snapshots` has.
pub(crate) fn snapshot(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/snapshots")
        .join(name);
    if std::env::var_os("OVERWRITE").is_some() {
        fs::write(&path, found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(
            found,
            expected,
            "line {} of {name}; OVERWRITE=1 accepts it",
            number + 1
        );
    }
    assert_eq!(found, expected, "{name}; OVERWRITE=1 accepts it");
}
