//! libFuzzer is C++: a compiler for it.

use anyhow::{Result, anyhow};

use takt_base::paths::which;
use takt_base::setup::packages::{Manager, has_sudo, is_root};
use takt_base::term::{WithHelp, note};

/// The compiler that crate `cc` calls unless `CXX` names another.
const COMPILER: &str = "c++";

/// Makes sure that there is a C++ compiler. Installs it with the system's package manager if that needs nobody's
/// password, saying so first; otherwise says what to type.
///
/// # Errors
///
/// If there is none in the end.
pub(super) fn ensure(may_install: bool) -> Result<()> {
    if is_there() {
        return Ok(());
    }
    let missing = Err(anyhow!(
        "a C++ compiler ({COMPILER}) is missing, which libFuzzer is built with"
    ));
    let Some(manager) = Manager::find() else {
        return missing.help("install g++ or clang++; no package manager known here was found");
    };
    let package = package(manager.program);
    let by_hand = format!("install it: {}", manager.to_shell(package));
    if !may_install || !(is_root() || has_sudo()) {
        return missing.help(by_hand);
    }
    note(format_args!(
        "{COMPILER} is missing; installing package {package} with {}",
        manager.program
    ));
    manager
        .install(package)
        .map_err(|said| anyhow!("{} could not install {package}:\n  {said}", manager.program))
        .help(by_hand)?;
    if is_there() { Ok(()) } else { missing }
}

fn is_there() -> bool {
    std::env::var_os("CXX").is_some() || which(COMPILER).is_some()
}

/// The package with a C++ compiler.
fn package(manager: &str) -> &'static str {
    match manager {
        "dnf" => "gcc-c++",
        "pacman" => "gcc",
        _ => "g++",
    }
}
