//! What `protoc` says of a Perfetto file by the published schema.

use std::env::consts;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::text::{Cpus, Entry, Event, add_lost};
use takt_base::paths;

/// The manifest that names the packages.
const MANIFEST: &str = "tests/perfetto/Cargo.toml";

/// Where the schema and `protoc` lie.
pub struct Schema {
    protoc: PathBuf,
    dir: PathBuf,
}

impl Schema {
    /// Asks cargo, which downloads them if they are not there.
    pub fn find() -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--locked"])
            .arg("--manifest-path")
            .arg(paths::workspace().join(MANIFEST))
            .current_dir(paths::workspace())
            .stdin(Stdio::null())
            .output()
            .context("cannot run cargo metadata")?;
        ensure!(
            output.status.success(),
            "cargo metadata of {MANIFEST}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        let packages = metadata["packages"].as_array().context("no packages")?;
        let dir = |name: &str| {
            let mut packages = packages.iter();
            let package = packages.find(|package| package["name"] == name);
            let manifest = package.and_then(|package| package["manifest_path"].as_str());
            let dir = manifest.and_then(|manifest| Path::new(manifest).parent());
            dir.map(Path::to_owned)
                .with_context(|| format!("{MANIFEST} does not lead to {name}"))
        };
        let host = match (consts::OS, consts::ARCH) {
            ("linux", "x86_64") => "linux-x86_64",
            ("linux", "aarch64") => "linux-aarch_64",
            (os, arch) => bail!("no protoc for {os} on {arch} is known here"),
        };
        Ok(Self {
            protoc: dir(&format!("protoc-bin-vendored-{host}"))?.join("bin/protoc"),
            dir: dir("perfetto_protos")?,
        })
    }
}

/// Decodes a file into protobuf's text, and takes that apart.
///
/// # Errors
///
/// If it fails, or says what is not understood.
pub fn read(schema: &Schema, file: &Path) -> Result<Cpus> {
    let output = Command::new(&schema.protoc)
        .arg("-I")
        .arg(&schema.dir)
        .arg("--decode=perfetto.protos.Trace")
        .arg(schema.dir.join("protos/perfetto/trace/trace.proto"))
        .stdin(File::open(file).context("cannot open the export")?)
        .output()
        .with_context(|| format!("cannot run {}", schema.protoc.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && stderr.is_empty(), "{stderr}");
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// An event in the making, by the lines of its text.
#[derive(Default)]
struct Lines {
    ns: u64,
    pid: u32,
    flags: u8,
    name: String,
    /// The numbers of its fields.
    numbers: Vec<u64>,
}

fn parse(text: &str) -> Result<Cpus> {
    let mut cpus = Cpus::new();
    let (mut cpu, mut lines) = (0, Lines::default());
    // A bundle says only behind its events that something was lost before them.
    let (mut is_loss_first, mut is_first) = (false, true);
    for line in text.lines() {
        let depth = line.len() - line.trim_start().len();
        let line = line.trim_start();
        // A field that the schema does not have is shown by its number.
        ensure!(
            !line.starts_with(|c: char| c.is_ascii_digit()),
            "unknown: {line}"
        );
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        match (depth, key) {
            (2, "ftrace_events {") => (is_loss_first, is_first) = (false, true),
            (4, "cpu") => cpu = value.parse()?,
            (4, "event {") => lines = Lines::default(),
            (4, "lost_events") => ensure!(is_loss_first, "a mark, but no loss"),
            (6, "timestamp") => lines.ns = value.parse()?,
            (6, "pid") => lines.pid = value.parse()?,
            (6, "common_flags") => lines.flags = value.parse()?,
            (6, key) if key.ends_with(" {") => lines.name = key[..key.len() - 2].to_owned(),
            (8, "event_name") => lines.name = value.trim_matches('"').to_owned(),
            (10, "uint_value") => lines.numbers.push(value.parse()?),
            (4, "}") if !lines.name.is_empty() => {
                let entries = cpus.entry(cpu).or_default();
                let lines = std::mem::take(&mut lines);
                if lines.name == "takt:lost" {
                    let [events, sub_buffers] = lines.numbers[..] else {
                        bail!("a loss of {:?}", lines.numbers);
                    };
                    is_loss_first |= is_first;
                    add_lost(entries, Some(events), sub_buffers);
                } else {
                    entries.push(Entry::Event(lines.event()));
                }
                is_first = false;
            }
            _ => {}
        }
    }
    Ok(cpus)
}

impl Lines {
    fn event(self) -> Event {
        let bit = |bit, letter| if self.flags & bit != 0 { letter } else { '.' };
        let name = self.name.rsplit(':').next().unwrap_or(&self.name);
        Event {
            ns: self.ns,
            task: String::new(),
            pid: self.pid,
            // Linux's bits; the preempt count is not in the schema.
            flags: [bit(0x01, 'd'), bit(0x04, 'N'), bit(0x08, 'h')]
                .iter()
                .collect(),
            name: name.to_owned(),
            message: String::new(),
        }
    }
}

/// Whether a line of ours and an event there say the same, as far as the schema can say it.
pub fn is_same(ours: &Entry, theirs: &Entry) -> bool {
    match (ours, theirs) {
        (Entry::Event(ours), Entry::Event(theirs)) => {
            let flags = ours.flags.replace('Z', "h").replace('z', ".");
            *theirs
                == Event {
                    task: String::new(),
                    message: String::new(),
                    flags: flags.chars().take(3).collect(),
                    ..ours.clone()
                }
        }
        (ours, theirs) => ours == theirs,
    }
}
