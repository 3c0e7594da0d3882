//! Flags of `image`.

use std::path::PathBuf;

use clap::Args;

/// Flags of `image`.
#[derive(Debug, Args)]
#[command(after_help = "\
GRUB boots the image by Multiboot2, from an ISO file, a USB stick or the network, by BIOS or by UEFI. Secure boot has to be \
switched off: neither GRUB nor the image is signed.
The image with its symbols, which attach needs, is kept in TAKT_MEDIA [default: $XDG_DATA_HOME/takt/media, or \
~/.local/share/takt/media].
The machine shows the latencies on its screen and on COM1 (115200 8N1) until q or the end; --append console=off: not.
docs/REAL-MACHINE.md has the way from a box to its figures.")]
pub struct Image {
    /// Where it goes.
    #[command(flatten)]
    pub to: To,
    /// This ELF file instead of one that is built; with --usb also an ISO file that --iso made.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["package", "bin", "example", "features", "manifest_path", "manifest"])]
    pub image: Option<PathBuf>,
    /// An example instead of the image that measures.
    #[arg(long, value_name = "NAME")]
    pub example: Option<String>,
    /// A binary instead of it.
    #[arg(long, value_name = "NAME", conflicts_with = "example")]
    pub bin: Option<String>,
    /// Package that holds it [default: takt-board; with --manifest-path its own].
    #[arg(short, long, value_name = "NAME")]
    pub package: Option<String>,
    /// Cargo.toml of an application elsewhere, which `new` makes: it is built by its own files.
    #[arg(long, value_name = "FILE")]
    pub manifest_path: Option<PathBuf>,
    /// The protected tasks of this manifest, a `takt.app.toml` (docs/TASKS.md), in an image that starts them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["package", "bin", "example", "manifest_path"])]
    pub manifest: Option<PathBuf>,
    /// More cargo features of the package.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub features: Vec<String>,
    /// The kernel's command line: 'duration_ns=60000000000 smp=4 cpus=0xf'; Linux's words for its tracer as in `run`.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub append: String,
    /// Overwrite the USB stick without asking.
    #[arg(short, long, requires = "usb")]
    pub yes: bool,
    /// Never install anything.
    #[arg(long)]
    pub no_install: bool,
    /// Show cargo's own output; twice: also put every log level into the image.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// Where an image goes.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct To {
    /// An ISO file: for a CD, for a USB stick, for a virtual machine.
    #[arg(long, value_name = "FILE")]
    pub iso: Option<PathBuf>,
    /// A USB stick: the whole of it is overwritten, and read back. The device of the disk: /dev/sdb.
    #[arg(long, value_name = "DEVICE")]
    pub usb: Option<PathBuf>,
    /// A new folder for a TFTP server from which machines boot over the network (PXE).
    #[arg(long, value_name = "DIR")]
    pub pxe: Option<PathBuf>,
    /// A stripped ELF file: for a GRUB that is there, and for kexec.
    #[arg(long, value_name = "FILE")]
    pub elf: Option<PathBuf>,
}
