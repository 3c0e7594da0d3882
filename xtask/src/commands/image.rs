//! `image`: media that a machine boots from.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};

use takt_base::term::WithHelp;
use takt_base::{input, output, paths, setup, term};
use takt_cli::Image;
use takt_guest::Elf;
use takt_guest::words;
use takt_image::build::CONSOLE_ELSEWHERE;
use takt_image::elsewhere::Elsewhere;
use takt_image::media;
use takt_image::media::disk::{Disk, System};
use takt_image::media::flash::{Step, flash};
use takt_image::media::{Contents, iso, netdir, strip};
use takt_image::{Recipe, elsewhere};

/// Builds the image and puts it where the flags say.
pub(super) fn run(flags: &Image) -> Result<ExitCode> {
    for file in [&flags.to.iso, &flags.to.elf].into_iter().flatten() {
        if output::is_stdout(file) {
            return Err(anyhow!("a medium is not written to stdout"))
                .help("name a file; one that is called - is ./-");
        }
        output::check_writable(file)?;
    }
    if let Some(device) = &flags.to.usb {
        // What can be refused is refused before anything is built.
        look(device, 0)?;
        let (medium, elf) = medium(flags)?;
        write_usb(device, &medium, flags.yes)?;
        // Of an ISO file that is there nobody knows.
        return elf.map_or(Ok(()), output::line).map(|()| ExitCode::SUCCESS);
    }
    let (contents, elf) = contents(flags)?;
    let said_where = |file: &Path| {
        let size = file.metadata().map_or(0, |meta| meta.len());
        let (file, size) = (file.display(), size as f64 / 1e6);
        output::line(format_args!("{file}: {size:.1} MB; {elf}"))?;
        Ok(ExitCode::SUCCESS)
    };
    if let Some(file) = &flags.to.elf {
        output::write_or_nothing(file, &contents.image)?;
        return said_where(file);
    }
    let tools = setup::ensure_grub(!flags.no_install)?;
    if let Some(file) = &flags.to.iso {
        output::write_or_nothing(file, &iso::make(&contents, &tools)?)?;
        return said_where(file);
    }
    if let Some(dir) = &flags.to.pxe {
        output::to_folder(dir, |part| netdir::write(&contents, &tools, part))?;
        output::line(format_args!(
            "{}: for a TFTP server; {elf}\nwhat its DHCP server names as the file to boot:",
            dir.display()
        ))?;
        for (firmware, core) in netdir::CORES {
            output::line(format_args!("  {firmware}  {core}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is to be booted, and a word on where the rest of it is.
fn contents(flags: &Image) -> Result<(Contents, String)> {
    let elf = match (&flags.image, &flags.manifest_path) {
        (Some(image), _) => Elf::open(image)?,
        (None, Some(manifest)) => Elf::open(&of_application(flags, manifest)?)?,
        (None, None) => Elf::open(&recipe(flags)?.build()?.path)?,
    };
    if elf.lacks_console() {
        term::note(format_args!(
            "{} has no console: a real machine shows nothing of it on its screen; its log comes by capture=com1 and attach. An \
             application in Rust has one by feature console of takt-board, or with --manifest-path instead of --image",
            elf.path.display()
        ));
    }
    let contents = Contents {
        image: strip::strip(&elf.data)
            .with_context(|| format!("{} cannot be put on a medium", elf.path.display()))?,
        words: words::translate(&flags.append, &elf)?.line,
    };
    let kept = media::keep(&elf)?;
    let elf = paths::shown(&kept);
    Ok((
        contents,
        format!("symbols and the log's formats, for attach --image, are in {elf}"),
    ))
}

/// The kind and the name of what is built, if the flags say so.
fn what(flags: &Image) -> Option<(&'static str, &str)> {
    let example = flags.example.as_deref().map(|name| ("--example", name));
    example.or(flags.bin.as_deref().map(|name| ("--bin", name)))
}

fn of_application(flags: &Image, manifest: &Path) -> Result<PathBuf> {
    let mut features = elsewhere::features(&flags.features, &flags.append);
    features.push(CONSOLE_ELSEWHERE.into());
    let elsewhere = Elsewhere {
        manifest,
        package: flags.package.as_deref(),
        what: what(flags),
        features: &features,
    };
    elsewhere.build()
}

fn recipe(flags: &Image) -> Result<Recipe> {
    let takt = Recipe::takt(flags.verbose);
    let (kind, name) = match what(flags) {
        Some((kind, name)) => (kind, name.to_owned()),
        None => (takt.kind, takt.name.clone()),
    };
    let recipe = match &flags.manifest {
        Some(manifest) => Recipe::of_manifest(manifest, flags.verbose)?,
        None => Recipe {
            package: flags.package.clone().unwrap_or(takt.package.clone()),
            kind,
            name,
            ..takt
        },
    };
    Ok(recipe
        .with_features(&flags.features)
        .for_words(&flags.append)
        .for_media())
}

/// The bytes for a USB stick: of an ISO file that is there, or of one that is made, with a word on where the rest of it is.
fn medium(flags: &Image) -> Result<(Vec<u8>, Option<String>)> {
    if let Some(file) = &flags.image {
        let bytes = input::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        if iso::is_iso(&bytes) {
            if !flags.append.is_empty() {
                return Err(anyhow!(
                    "--append cannot change the ISO file {}",
                    file.display()
                ))
                .help("give the words when it is made: image --iso FILE --append …");
            }
            return Ok((bytes, None));
        }
    }
    let (contents, elf) = contents(flags)?;
    let iso = iso::make(&contents, &setup::ensure_grub(!flags.no_install)?)?;
    Ok((iso, Some(elf)))
}

/// The disk, if `len` bytes may be written to it.
fn look(device: &Path, len: u64) -> Result<Disk> {
    let disk = Disk::look(device, &System::here())?;
    if let Err(error) = disk.check(len) {
        term::write_stderr(&disk.describe());
        return Err(error);
    }
    Ok(disk)
}

fn write_usb(device: &Path, medium: &[u8], is_agreed: bool) -> Result<()> {
    // Once more: a build may take minutes, and somebody may have mounted it.
    let disk = look(device, medium.len() as u64)?;
    term::write_stderr(&disk.describe());
    if !is_agreed && !agrees(&disk)? {
        return Err(anyhow!("nothing was written to {}", disk.device.display()))
            .help("answer y, or give --yes");
    }
    // And once more: the answer is about the disk that was shown.
    if look(device, medium.len() as u64)? != disk {
        return Err(anyhow!("{} is another disk now", disk.device.display()))
            .help("begin anew, and see what is there");
    }
    let len = medium.len() as u64;
    let bar = ProgressBar::new(len).with_style(
        // The template is constant.
        ProgressStyle::with_template("{msg} {bar:34.cyan/dim} {bytes} of {total_bytes}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let written = flash(medium, &disk.device, &disk.number, |step, done| {
        bar.set_message(match step {
            Step::Write => "writing  ",
            Step::Compare => "comparing",
        });
        bar.set_position(done);
    });
    bar.finish_and_clear();
    written?;
    output::line(format_args!(
        "{}: {:.1} MB written, read back and compared; it may be pulled out",
        disk.device.display(),
        len as f64 / 1e6
    ))
}

/// Asks whether everything on it may be lost.
fn agrees(disk: &Disk) -> Result<bool> {
    let device = disk.device.display();
    if !io::stdin().is_terminal() {
        return Err(anyhow!(
            "nobody is there to be asked whether {device} may be overwritten"
        ))
        .help("if it may: --yes");
    }
    term::write_stderr(&format!(
        "Overwrite {device}? Everything on it is lost. [y/N] "
    ));
    let mut answer = String::new();
    io::stdin()
        .read_line(&mut answer)
        .context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
