//! What the machine must have, and getting it.

pub mod build;
pub mod grub;
pub mod install;
pub mod labgrid;
pub mod packages;

pub use grub::{GrubTools, ensure_grub, ensure_ovmf, missing_grub};
pub use install::{
    browser, ensure_browser, ensure_fuse, ensure_make, ensure_qemu, ensure_slurm, ensure_unpacker,
    ensure_viewers,
};
pub use labgrid::ensure_labgrid;
