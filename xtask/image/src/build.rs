//! Builds an image with cargo: a freestanding static ELF for the host's own target, for which the pinned stable compiler has
//! `core` everywhere.
//!
//! `--target` is passed although it is the host's, so that build scripts and procedural macros do
//! not get the image's flags. Cargo's environment is cleaned of what the cargo that runs xtask put
//! there. Whether anything is to be done is cargo's to decide.
//!
//! What is between sources and images is in one folder for images of all capacities, so that what runs on the host is built
//! once. There the flags are part of each crate's file name, and nothing replaces what was built with other flags. The
//! images themselves have no flags in their names: those with other flags lie in a folder of their own. Images with feature
//! `function` have another such folder: what allows their flags is no flag, and changes what build scripts find.

use std::borrow::Cow;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use console::Term;

use super::lean::{self, Kept};
use super::tasks;
use takt_base::input;
use takt_base::term::{WithHelp, write_stderr};
use takt_base::{output, paths};
use takt_guest::words;

/// The one target.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// `static`: addresses are final. No red zone in our own code, and frame pointers for backtraces. No NOPs in front of loops
/// but of a byte at most, since they are instructions as well.
/// What `core` was compiled with is another matter; see CONTRIBUTING.md.
pub const RUSTFLAGS: &str = "-C relocation-model=static -C no-redzone=yes -C force-frame-pointers=yes -C target-cpu=x86-64 \
                         -C llvm-args=-max-bytes-for-alignment=1";

/// What images with feature `function` are built with besides: entries that can be patched (a `-Z` flag, allowed to the
/// stable compiler by [`BOOTSTRAP`]), each function at the beginning of a block by which records name it.
pub(super) const FUNCTION_RUSTFLAGS: &str =
    " -Z patchable-function-entry=5 -C llvm-args=-align-all-functions=6";

/// Allows `-Z` flags. It has a nightly compiler's symbol names come with it, too.
pub(super) const BOOTSTRAP: (&str, &str) = ("RUSTC_BOOTSTRAP", "1");

/// The feature of images with a console, in packages other than its own.
pub const CONSOLE_ELSEWHERE: &str = "takt-board/console";

/// The kernel's capacities of an image, where they are not those of the caller's environment.
#[derive(Clone, Copy, Debug)]
pub struct Capacities {
    /// A word for them.
    pub name: &'static str,
    /// Cargo's profile.
    pub profile: &'static str,
    /// Variables of `takt_kernel::config` and their values.
    pub variables: &'static [(&'static str, &'static str)],
}

/// What to build.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The package.
    pub package: String,
    /// `--bin`, `--example`, or `--lib` for a static library.
    pub kind: &'static str,
    /// Name of the binary or example.
    pub name: String,
    /// Cargo features.
    pub features: Vec<String>,
    /// Log level filter that is compiled in.
    pub defmt_log: Cow<'static, str>,
    /// Capacities of its own.
    pub capacities: Option<Capacities>,
    /// The manifest of its tasks.
    pub manifest: Option<PathBuf>,
    /// Where cargo finds the package, if that is none of Takt's.
    pub dir: Option<PathBuf>,
    /// Let cargo print what it prints.
    pub verbose: bool,
}

/// An image that is there.
#[derive(Clone, Debug)]
pub struct Built {
    /// The ELF file.
    pub path: PathBuf,
    /// How long cargo took.
    pub took: Duration,
    /// What its interrupts keep.
    pub kept: Kept,
}

/// Flags for the folders in which cargo keeps the crates' sources: panics name the file that they come from, and crates lie
/// elsewhere on each machine. Folders with a space in their names cannot stand among the flags.
fn remaps() -> Vec<String> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let home = env::var_os("HOME")?;
        Some(PathBuf::from(home).join(".cargo"))
    });
    let entries = home.and_then(|home| fs::read_dir(home.join("registry/src")).ok());
    let mut flags: Vec<_> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| format!("--remap-path-prefix={}=/registry", entry.path().display()))
        .filter(|flag| !flag.contains(char::is_whitespace))
        .collect();
    flags.sort();
    flags
}

/// The same flags as one that names a file with them. Where such a flag stands among the others cargo leaves all of them out
/// of the crates' file names, and what was built with others is built anew each time.
fn remaps_by_file() -> Result<Vec<String>> {
    static WRITING: Mutex<()> = Mutex::new(());
    let dir = paths::target();
    let file = dir.join("image-build.flags");
    let flag = format!("@{}", file.display());
    let flags = remaps();
    if flag.contains(char::is_whitespace) {
        return Ok(flags);
    }
    let text = flags.join("\n");
    let _alone = WRITING.lock();
    // Once, and not for each image.
    if input::read(&file).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(vec![flag]);
    }
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    output::write_or_nothing(&file, text.as_bytes())?;
    Ok(vec![flag])
}

/// What of the log is compiled in where nobody says anything.
pub const INFO: &str = "info";

/// The variables of all builds of images with feature `function`, or without, with this of their log.
///
/// Each level of the log has a folder of its own: the crate `defmt` is built anew where it changes, and all others are built on that.
#[must_use]
pub fn variables(has_functions: bool, defmt_log: &str) -> Vec<(&'static str, String)> {
    let (name, bootstrap) = match has_functions {
        true => ("image-build-function", Some(BOOTSTRAP)),
        false => ("image-build", None),
    };
    let mut name = name.to_owned();
    if defmt_log != INFO {
        let plain = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
        name.push('-');
        name.extend(defmt_log.chars().map(plain));
    }
    let between = paths::target().join(name).display().to_string();
    let mut variables = vec![
        ("CARGO_BUILD_BUILD_DIR", between),
        ("DEFMT_LOG", defmt_log.to_owned()),
    ];
    variables.extend(bootstrap.map(|(name, value)| (name, value.to_owned())));
    variables
}

/// The variables of `takt_kernel::config`.
fn capacities() -> impl Iterator<Item = &'static str> {
    let parts = include_str!("../../../kernel/src/config.rs")
        .split("option_env!(\"")
        .skip(1);
    parts.filter_map(|part| Some(part.split_once('"')?.0))
}

/// What of the log is compiled in: what the caller's `DEFMT_LOG` says, unless they want all of it.
fn log_level(verbose: u8) -> Cow<'static, str> {
    match env::var("DEFMT_LOG") {
        _ if verbose >= 2 => "trace".into(),
        Ok(level) if !level.is_empty() => level.into(),
        _ => INFO.into(),
    }
}

impl Recipe {
    /// The image that `latency-run` boots.
    #[must_use]
    pub fn takt(verbose: u8) -> Self {
        Self {
            package: "takt-board".into(),
            kind: "--bin",
            name: "timerlat".into(),
            features: vec!["image".into()],
            defmt_log: log_level(verbose),
            capacities: None,
            manifest: None,
            dir: None,
            verbose: verbose >= 1,
        }
    }

    /// The image of this name with on-target tests, built with these features besides.
    #[must_use]
    pub fn tests(name: &str, features: &[&str]) -> Self {
        Self {
            package: "takt-tests".into(),
            name: name.into(),
            ..Self::takt(0).with_features(features)
        }
    }

    /// The same with these features added.
    #[must_use]
    pub fn with_features(mut self, features: &[impl AsRef<str>]) -> Self {
        self.features
            .extend(features.iter().map(|name| name.as_ref().to_owned()));
        self
    }

    /// The same with what these words for the kernel's command line want.
    #[must_use]
    pub fn for_words(self, words: &str) -> Self {
        match words::want_functions(words) {
            true => self.with_features(&["function"]),
            false => self,
        }
    }

    /// The same with what a person at a real machine sees.
    #[must_use]
    pub fn for_media(self) -> Self {
        let console = match &*self.package {
            "takt-board" => "console",
            _ => CONSOLE_ELSEWHERE,
        };
        self.with_features(&[console])
    }

    /// The same with the tasks of a manifest; the image's package has a feature `tasks`.
    #[must_use]
    pub fn with_tasks(self, manifest: &Path) -> Self {
        Self {
            manifest: Some(manifest.to_owned()),
            ..self.with_features(&["tasks"])
        }
    }

    /// The image of a manifest of tasks: of the package that it names, else Takt's own that starts them and nothing else.
    ///
    /// # Errors
    ///
    /// As [`Manifest::read`](tasks::Manifest::read).
    pub fn of_manifest(manifest: &Path, verbose: u8) -> Result<Self> {
        let takt = Self::takt(verbose);
        let recipe = match tasks::Manifest::read(manifest)?.image {
            Some(package) => Self {
                name: package.clone(),
                package,
                features: Vec::new(),
                dir: Some(tasks::folder(manifest)),
                ..takt
            },
            None => Self {
                name: "tasks".into(),
                ..takt
            },
        };
        Ok(recipe.with_tasks(manifest))
    }

    fn has_console(&self) -> bool {
        let is_console = |name: &String| name == "console" || name == CONSOLE_ELSEWHERE;
        self.features.iter().any(is_console)
    }

    fn has_functions(&self) -> bool {
        self.features.iter().any(|name| name == "function")
    }

    /// A word for its capacities, where they are others than the defaults. What is built with them has to be kept apart: they are
    /// no part of cargo's file names.
    fn apart(&self) -> Option<&'static str> {
        let is_capacity = |name: &str| name == "TAKT_CONFIG" || capacities().any(|it| it == name);
        let mut variables = env::vars_os();
        self.capacities.map(|it| it.name).or_else(|| {
            // An application elsewhere has folders of its own.
            let is_takt = self.dir.is_none();
            (is_takt && variables.any(|(name, _)| name.to_str().is_some_and(is_capacity)))
                .then_some("environment")
        })
    }

    fn profile(&self) -> &'static str {
        self.capacities.map_or("image", |it| it.profile)
    }

    /// Where the image is put.
    fn target_dir(&self) -> PathBuf {
        let mut name = "image".to_owned();
        if let Some(capacities) = self.apart() {
            name += &format!("-{capacities}");
        }
        if let Some(manifest) = &self.manifest {
            name += &format!("-{}", tasks::name(manifest));
        }
        if self.has_functions() {
            name += "-function";
        }
        // Whoever boots the image without a console may do so at the same time.
        if self.has_console() {
            name += "-media";
        }
        paths::target().join(name)
    }

    /// Environment variables that the build gets besides what is inherited, with these flags among the compiler's.
    fn variables(&self, remaps: &[String]) -> Vec<(&'static str, String)> {
        let mut flags = match self.profile() {
            // What they are for, the reports' backtraces, is left out there.
            "small" => RUSTFLAGS.replace("force-frame-pointers=yes", "force-frame-pointers=no"),
            _ => RUSTFLAGS.to_owned(),
        };
        for flag in remaps {
            flags += &format!(" {flag}");
        }
        // Tells manifests what is not built for an image.
        flags += " --cfg takt_image";
        if self.has_functions() {
            flags += FUNCTION_RUSTFLAGS;
        }
        let mut variables = self::variables(self.has_functions(), &self.defmt_log);
        if let Some(capacities) = self.capacities {
            let own = |(name, value): &(&'static str, &str)| (*name, (*value).to_owned());
            variables.extend(capacities.variables.iter().map(own));
        }
        variables.push(("RUSTFLAGS", flags));
        variables
    }

    /// Cargo's arguments.
    fn arguments(&self) -> Vec<OsString> {
        let words: &[&str] = match self.kind {
            "--lib" => &[
                "rustc",
                "--package",
                &self.package,
                "--lib",
                "--crate-type",
                "staticlib",
            ],
            kind => &["build", "--package", &self.package, kind, &self.name],
        };
        let mut args: Vec<OsString> = words.iter().map(Into::into).collect();
        let apart = self.apart().map(|it| format!("takt-kernel/apart-{it}"));
        let features: Vec<_> = self.features.iter().cloned().chain(apart).collect();
        if !features.is_empty() {
            args.extend(["--features".into(), features.join(",").into()]);
        }
        args.extend(
            [
                "--target",
                TARGET,
                "--profile",
                self.profile(),
                "--target-dir",
            ]
            .map(Into::into),
        );
        args.push(self.target_dir().into());
        args
    }

    /// The build as one would type it.
    #[must_use]
    pub fn to_shell(&self) -> String {
        let variables: Vec<_> = self
            .variables(&remaps())
            .iter()
            .map(|(name, value)| format!("{name}='{value}'"))
            .collect();
        let arguments = self.arguments();
        let arguments: Vec<_> = arguments.iter().map(|arg| arg.to_string_lossy()).collect();
        format!("{} cargo {}", variables.join(" "), arguments.join(" "))
    }

    /// Builds the image, or finds that it is up to date.
    ///
    /// # Errors
    ///
    /// If cargo cannot be run or fails; its messages are on stderr by then.
    pub fn build(&self) -> Result<Built> {
        let started = Instant::now();
        let messages = self.run_cargo()?;
        let Some(path) = find_executable(&messages, &self.name) else {
            bail!("cargo built no executable named `{}`", self.name);
        };
        if self.manifest.is_some() {
            tasks::check(&path)?;
        }
        let kept = lean::make(&path)?;
        Ok(Built {
            path,
            took: started.elapsed(),
            kept,
        })
    }

    /// Has cargo build it, and gives cargo's messages in JSON.
    pub(super) fn run_cargo(&self) -> Result<Vec<u8>> {
        let progress = Progress::start(&self.name, self.verbose);
        let mut cargo = self.command(&remaps_by_file()?);
        let declared = match &self.manifest {
            Some(manifest) => tasks::pack(manifest, &self.defmt_log, self.verbose)?.source,
            None => paths::workspace().join("board/src/tasks/none.rs"),
        };
        cargo.env("TAKT_TASKS", declared);
        if !self.verbose {
            cargo.stderr(Stdio::piped());
        }
        if !paths::is_takt(&paths::workspace()) {
            let takt = paths::workspace();
            return Err(anyhow!("Takt's sources are not in {}", takt.display()))
                .help("give an image that is there (--image ELF), or install takt anew from where they are");
        }
        let output = cargo
            .spawn()
            .and_then(std::process::Child::wait_with_output)
            .context("cannot run cargo")?;
        progress.finish(output.status.success());
        if !output.status.success() {
            let messages = String::from_utf8_lossy(&output.stderr);
            write_stderr(&messages);
            let failed = Err(anyhow!("the image `{}` does not build", self.name));
            return if messages.contains("can't find crate for `core`") {
                failed.help(format!("the target is missing: rustup target add {TARGET}"))
            } else {
                failed
            };
        }
        Ok(output.stdout)
    }

    fn command(&self, remaps: &[String]) -> Command {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        for (name, _) in env::vars_os() {
            if disturbs(&name.to_string_lossy()) {
                cargo.env_remove(name);
            }
        }
        cargo
            .args(self.arguments())
            .arg("--message-format=json-render-diagnostics")
            .envs(self.variables(remaps))
            .current_dir(self.dir.clone().unwrap_or_else(paths::workspace))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        cargo
    }
}

/// Whether a variable would change the build: what the outer cargo tells its own build, and
/// flags, profiles and directories that are meant for the host.
#[must_use]
pub fn disturbs(name: &str) -> bool {
    const KEEP: [&str; 5] = [
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTR",
        "CARGO_TERM_",
    ];
    let is_cargos = name.starts_with("CARGO_") && !KEEP.iter().any(|keep| name.starts_with(keep));
    is_cargos
        || matches!(
            name,
            "RUSTC_WORKSPACE_WRAPPER" | "__CARGO_DEFAULT_LIB_METADATA"
        )
}

/// Builds the package in this folder, with its own flags; gives its executable of this name.
///
/// # Errors
///
/// If cargo cannot be run or fails; its messages are on stderr by then.
pub fn build_outside(dir: &Path, name: &str) -> Result<PathBuf> {
    let output = Command::new(paths::cargo())
        .args([
            "build",
            "--quiet",
            "--message-format=json-render-diagnostics",
        ])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("{} does not build", dir.display());
    }
    let path = find_executable(&output.stdout, name)
        .ok_or_else(|| anyhow!("cargo built no executable named `{name}`"))?;
    lean::make(&path)?;
    Ok(path)
}

/// Cargo's messages in JSON.
pub(super) fn parse(messages: &[u8]) -> impl DoubleEndedIterator<Item = serde_json::Value> {
    messages
        .split(|&byte| byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
}

/// The path of the executable `name` in cargo's JSON messages.
pub(super) fn find_executable(messages: &[u8], name: &str) -> Option<PathBuf> {
    parse(messages)
        .filter(|message| message["target"]["name"] == name)
        .filter_map(|message| Some(message["executable"].as_str()?.into()))
        .next_back()
}

/// The single line that says that something is being built. It goes away on a terminal; elsewhere
/// it is printed only if the build takes noticeable time, which is known when it is over.
struct Progress {
    term: Option<Term>,
    name: String,
    started: Instant,
}

impl Progress {
    fn start(name: &str, verbose: bool) -> Self {
        let term = Some(Term::stderr()).filter(|term| term.is_term() && !verbose);
        if let Some(term) = &term {
            // A terminal that cannot be written to is no reason to stop.
            let _ = term.write_str(&format!("Building the image `{name}` …"));
        }
        Self {
            term,
            name: name.into(),
            started: Instant::now(),
        }
    }

    fn finish(self, is_built: bool) {
        let took = self.started.elapsed().as_secs_f32();
        if let Some(term) = self.term {
            let _ = term.clear_line();
        } else if is_built && took > 1.0 {
            tell!("Built the image `{}` in {took:.1} s", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outer_cargo_does_not_disturb() {
        for name in [
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_PROFILE_RELEASE_LTO",
            "CARGO_PKG_NAME",
        ] {
            assert!(disturbs(name), "{name}");
        }
        for name in [
            "CARGO",
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "PATH",
            "RUSTUP_TOOLCHAIN",
        ] {
            assert!(!disturbs(name), "{name}");
        }
    }

    #[test]
    fn flags_are_part_of_the_file_names() {
        let flags = remaps_by_file().unwrap();
        let [flag] = flags.as_slice() else {
            panic!("{flags:?}")
        };
        let file = flag.strip_prefix('@').unwrap();
        let lines = fs::read_to_string(file).unwrap();
        assert!(lines.lines().eq(remaps()), "{lines}");
        let variables = Recipe::takt(0).variables(&flags);
        let is_remap = |(_, value): &(_, String)| value.contains("--remap-path-prefix");
        assert!(!variables.iter().any(is_remap), "{variables:?}");
    }

    #[test]
    fn the_executable_is_found_among_the_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"takt"},"executable":null}"#,
            "\nnot json\n",
            r#"{"reason":"compiler-artifact","target":{"name":"takt"},"executable":"/a/takt"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/a/other"}"#,
        );
        assert_eq!(
            find_executable(messages.as_bytes(), "takt"),
            Some("/a/takt".into())
        );
        assert_eq!(find_executable(b"", "takt"), None);
    }
}
