//! The end-to-end tests: those of `takt-end-to-end`, a program of its own that is built when it is first needed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;

use super::tally::Tally;
use takt_base::paths;
use takt_base::setup::build::{Package, Profile, bring_up_to_date};

const PART: &str = "end-to-end";

const PACKAGE: Package = Package {
    name: "takt-end-to-end",
    profile: Profile::Dev,
    file: "takt-end-to-end",
    first: "it takes up to a minute",
    takes: "up to a minute",
    needs: "cargo xtask doctor says whether all is there",
};

/// How a test ended, as the program says it.
#[derive(Deserialize)]
struct Told {
    name: String,
    #[serde(default)]
    note: String,
    error: Option<String>,
}

/// Runs those whose names have `filter`.
pub(super) fn run(filter: Option<&str>, may_install: bool, tally: &Tally) {
    if let Err(error) = run_program(filter, may_install, tally) {
        tally.failed(PART, PACKAGE.name, &format!("{error:#}"));
    }
}

fn run_program(filter: Option<&str>, may_install: bool, tally: &Tally) -> Result<()> {
    let mut child = Command::new(bring_up_to_date(&PACKAGE)?)
        .arg(if may_install { "install" } else { "no-install" })
        .args(filter)
        .current_dir(paths::workspace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot be run")?;
    let stdout = child.stdout.take().context("it has no stdout")?;
    for line in BufReader::new(stdout).lines() {
        let line = line.context("cannot read what it says")?;
        let told: Told =
            serde_json::from_str(&line).with_context(|| format!("it says `{line}`"))?;
        let result = told
            .error
            .map_or(Ok(told.note), |error| Err(anyhow!(error)));
        tally.judge(PART, &told.name, &result);
    }
    let status = child.wait().context("cannot wait for it")?;
    ensure!(status.success(), "it has not come to its end: {status}");
    Ok(())
}
