//! Installing QEMU when it is missing.

use anyhow::{Result, anyhow, bail};

use super::packages::{Manager, has_sudo, is_root};
use crate::qemu;
use crate::term::{WithHelp, note};

/// Makes sure that there is a QEMU. Installs it with the system's package manager if that needs
/// nobody's password, saying so first; otherwise says what to type.
///
/// # Errors
///
/// If there is none in the end.
pub fn ensure_qemu(may_install: bool) -> Result<()> {
    if qemu::version().is_some() {
        return Ok(());
    }
    if std::env::var_os("TAKT_QEMU").is_some() {
        bail!(
            "TAKT_QEMU is set to `{}`, and that does not run",
            qemu::program().display()
        );
    }
    let missing = Err(anyhow!("{} is missing", qemu::PROGRAM));
    let Some(manager) = Manager::find() else {
        return missing.help("install QEMU for x86-64; no package manager known here was found");
    };
    let by_hand = format!("install it: {}", manager.to_shell(manager.qemu));
    if !may_install || !(is_root() || has_sudo()) {
        return missing.help(by_hand);
    }
    note(format_args!(
        "{} is missing; installing package {} with {}",
        qemu::PROGRAM,
        manager.qemu,
        manager.program
    ));
    manager
        .install(manager.qemu)
        .map_err(|said| {
            let said = said.trim().replace('\n', "\n  ");
            anyhow!(
                "{} could not install {}:\n  {said}",
                manager.program,
                manager.qemu
            )
        })
        .help(by_hand)?;
    match qemu::version() {
        Some(_) => Ok(()),
        None => bail!(
            "{} installed {}, and yet {} does not run",
            manager.program,
            manager.qemu,
            qemu::PROGRAM
        ),
    }
}
