//! Flags of `prove`.

use std::path::PathBuf;

use clap::Args;

/// Flags of `prove`.
#[derive(Debug, Args)]
pub struct Prove {
    /// Of this ELF file [default: that of the sweep, else Takt's own image].
    #[arg(long, value_name = "ELF")]
    pub image: Option<PathBuf>,
    /// The worst response times of the threads of this manifest, a `takt.app.toml`, and whether their deadlines hold: by what
    /// its `[[timing]]` say, and what is proved of the image. One CPU.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["any_keys", "config", "sweep", "section", "path", "mutations"])]
    pub manifest: Option<PathBuf>,
    /// Any static key may be on or off at any time: tracing, and whatever else is switched on while the system runs. Without,
    /// all are off.
    #[arg(long)]
    pub any_keys: bool,
    /// What is known of the system besides its image, several times: a static key by its path is `off`, `on` or `any`; what a
    /// bound grows with happens so many times in a stretch, `off` for 0; and what the sources say a part of the kernel is for,
    /// as `counting at switches`, is `off`; `cpus=4` says how many CPUs run, one without it. All else is allowed.
    #[arg(long, value_name = "WHAT=VALUE")]
    pub config: Vec<String>,
    /// Look at the image of this sweep, and show beside the bounds what it has met: its folder.
    #[arg(long, value_name = "FOLDER")]
    pub sweep: Option<PathBuf>,
    /// Only stretches with this in the name of their function, or in their line.
    #[arg(long, value_name = "TEXT")]
    pub section: Option<String>,
    /// Show the path that takes each bound, by function and line.
    #[arg(long)]
    pub path: bool,
    /// Change the code so many times at random, each time at one place that a longest path comes to, which makes that path
    /// longer: the bounds have to follow.
    #[arg(long, value_name = "N", conflicts_with_all = ["any_keys", "config", "sweep", "section", "path", "json"])]
    pub mutations: Option<u32>,
    /// Other changes for another number.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "mutations")]
    pub seed: u64,
    /// Write what is found as JSON to this file as well; `-` is stdout, instead of the table.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
