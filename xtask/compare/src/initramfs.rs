//! What Linux runs: an initramfs of our `init.sh`, busybox, and cyclictest with the libraries that it needs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cpio::newc::{Builder, ModeFileType, trailer};
use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP};
use object::endian::Endianness;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};

/// The guest's first program.
pub const INIT: &str = include_str!("init.sh");

/// Where the loader looks for libraries, on every release of Debian.
const LIBRARIES: &str = "lib/x86_64-linux-gnu";
/// Where a package may have them.
const LIBRARY_PLACES: [&str; 4] = [LIBRARIES, "usr/lib/x86_64-linux-gnu", "lib64", "usr/lib64"];

/// Files by their paths in the guest, without the leading slash.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Writes the initramfs to `target`, from packages that were unpacked into `root`.
///
/// # Errors
///
/// If a file is missing in them, or `target` cannot be written.
pub fn write(root: &Path, target: &Path) -> Result<()> {
    pack(&collect(root)?, target)
}

/// Writes an initramfs of these files.
///
/// # Errors
///
/// If `target` cannot be written.
pub fn pack(files: &Files, target: &Path) -> Result<()> {
    let cannot = || format!("cannot write {}", target.display());
    let archive = BufWriter::new(File::create(target).with_context(cannot)?);
    write_archive(archive, files)
        .and_then(|mut archive| archive.flush())
        .with_context(cannot)
}

/// All files that the guest gets.
fn collect(root: &Path) -> Result<Files> {
    let mut files = Files::new();
    let busybox = read(root, &["bin/busybox", "usr/bin/busybox"], "busybox")?;
    files.insert("bin/busybox".into(), busybox);
    for name in ["cyclictest", "ptsematest"] {
        let places = [format!("usr/bin/{name}"), format!("bin/{name}")];
        let program = read(root, &places, name)?;
        add_libraries(&program, root, &mut files)
            .with_context(|| format!("the libraries of {name}"))?;
        files.insert(format!("bin/{name}"), program);
    }
    files.insert("init".into(), INIT.into());
    Ok(files)
}

/// Reads the first of several places that exists, and that does not lead out of the packages: links in them are
/// absolute now and then, and would be the host's.
fn read(root: &Path, places: &[impl AsRef<Path>], name: &str) -> Result<Vec<u8>> {
    let root = root.canonicalize()?;
    places
        .iter()
        .filter_map(|place| root.join(place).canonicalize().ok())
        .find(|path| path.starts_with(&root))
        .with_context(|| format!("none of the packages has {name}"))
        .and_then(|path| Ok(takt_base::input::read(path)?))
}

/// Adds the loader and the libraries that a program needs, and those that they need.
///
/// # Errors
///
/// If one of them is neither there nor in `root`.
pub fn add_libraries(program: &[u8], root: &Path, files: &mut Files) -> Result<()> {
    let needs = needs(program)?;
    let loader = needs.loader.map(|path| {
        let path = path.trim_start_matches('/').to_owned();
        let name = path.rsplit('/').next().unwrap_or(&path).to_owned();
        (path, name)
    });
    let library = |name: String| (format!("{LIBRARIES}/{name}"), name);
    for (path, name) in needs.libraries.into_iter().map(library).chain(loader) {
        if files.contains_key(&path) {
            continue;
        }
        let places: Vec<PathBuf> = LIBRARY_PLACES
            .iter()
            .map(|place| Path::new(place).join(&name))
            .collect();
        let bytes = read(root, &places, &name)?;
        files.insert(path, bytes.clone());
        add_libraries(&bytes, root, files)?;
    }
    Ok(())
}

/// What an ELF file needs to be loaded.
struct Needs {
    libraries: Vec<String>,
    loader: Option<String>,
}

fn needs(bytes: &[u8]) -> Result<Needs> {
    let elf = ElfFile64::<Endianness>::parse(bytes).context("no 64-bit ELF file")?;
    let endian = elf.endian();
    let header: &FileHeader64<Endianness> = elf.elf_header();
    let mut loader = None;
    for segment in header.program_headers(endian, bytes)? {
        if segment.p_type(endian) == PT_INTERP
            && let Ok(path) = segment.data(endian, bytes)
        {
            let path = path.strip_suffix(&[0]).unwrap_or(path);
            loader = Some(String::from_utf8_lossy(path).into_owned());
        }
    }
    let sections = header.sections(endian, bytes)?;
    let mut libraries = Vec::new();
    if let Some((entries, strings)) = sections.dynamic(endian, bytes)? {
        let strings = sections.strings(endian, bytes, strings)?;
        for entry in entries
            .iter()
            .filter(|entry| entry.tag32(endian) == Some(DT_NEEDED))
        {
            let name = entry.string(endian, strings)?;
            libraries.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(Needs { libraries, loader })
}

/// Writes folders, the console and the files.
fn write_archive<W: Write>(mut archive: W, files: &Files) -> std::io::Result<W> {
    let entry = |name: &str, kind, permissions| {
        Builder::new(name)
            .mode(permissions)
            .set_mode_file_type(kind)
    };
    // Linux makes no folders for the files in them.
    let mut folders = vec!["dev", "out", "proc", "sys", "tmp"];
    for name in files.keys() {
        folders.extend(name.match_indices('/').map(|(at, _)| &name[..at]));
    }
    folders.sort_unstable();
    folders.dedup();
    for name in folders {
        archive = entry(name, ModeFileType::Directory, 0o755)
            .nlink(2)
            .write(archive, 0)
            .finish()?;
    }
    archive = entry("dev/console", ModeFileType::Char, 0o600)
        .rdev_major(5)
        .rdev_minor(1)
        .write(archive, 0)
        .finish()?;
    for (name, bytes) in files {
        let len = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
        let mut writer = entry(name, ModeFileType::Regular, 0o755).write(archive, len);
        writer.write_all(bytes)?;
        archive = writer.finish()?;
    }
    trailer(archive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpio::newc::Reader;
    use std::fs;

    #[test]
    fn linux_gets_folders_before_what_is_in_them() {
        let files = Files::from([
            ("init".into(), b"#!".to_vec()),
            ("lib/x/libc.so".into(), b"12345".to_vec()),
        ]);
        let archive = write_archive(Vec::new(), &files).unwrap();
        let mut rest = &archive[..];
        let mut seen = Vec::new();
        loop {
            let reader = Reader::new(rest).unwrap();
            let entry = reader.entry();
            if entry.is_trailer() {
                break;
            }
            seen.push((entry.name().to_owned(), entry.mode(), entry.file_size()));
            rest = reader.finish().unwrap();
        }
        let at = |name: &str| seen.iter().position(|(is, ..)| is == name).unwrap();
        assert!(at("lib") < at("lib/x") && at("lib/x") < at("lib/x/libc.so"));
        assert_eq!(seen[at("lib/x/libc.so")].2, 5);
        assert_eq!(seen[at("init")].1, 0o100_755);
        assert_eq!(seen[at("dev/console")].1, 0o020_600);
        assert_eq!(seen.iter().filter(|(name, ..)| name == "dev").count(), 1);
    }

    #[test]
    fn a_program_needs_its_loader_and_its_libraries() {
        let own = fs::read("/proc/self/exe").unwrap();
        let needs = needs(&own).unwrap();
        assert!(
            needs.libraries.iter().any(|name| name == "libc.so.6"),
            "{:?}",
            needs.libraries
        );
        assert_eq!(needs.loader.as_deref(), Some("/lib64/ld-linux-x86-64.so.2"));
    }

    #[test]
    fn what_a_package_lacks_is_named_and_the_hosts_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let error = collect(dir.path()).unwrap_err();
        assert_eq!(error.to_string(), "none of the packages has busybox");
        fs::create_dir_all(dir.path().join("bin")).unwrap();
        std::os::unix::fs::symlink("/bin/sh", dir.path().join("bin/busybox")).unwrap();
        assert!(collect(dir.path()).is_err());
    }
}
