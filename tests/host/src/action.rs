//! The action for GitHub, `.github/actions/latency`: its steps are run as a runner does it.
//!
//! Source: GitHub, "Metadata syntax for GitHub Actions": `runs` for composite actions; `bash` is `bash --noprofile --norc -eo pipefail`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use takt_base::paths;

use super::stage::{Done, is_kept_from_cargo};

const FOLDER: &str = ".github/actions/latency";

#[derive(Deserialize)]
struct Action {
    inputs: BTreeMap<String, Input>,
    runs: Runs,
}

#[derive(Deserialize)]
struct Input {
    default: Option<String>,
}

#[derive(Deserialize)]
struct Runs {
    using: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    name: String,
    shell: String,
    run: String,
    #[serde(rename = "working-directory")]
    dir: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// A text in which the action's inputs stand for what they are.
fn filled(text: &str, inputs: &BTreeMap<String, String>) -> Result<String> {
    let mut text = text.to_owned();
    for (name, value) in inputs {
        text = text.replace(&format!("${{{{ inputs.{name} }}}}"), value);
    }
    ensure!(!text.contains("${{"), "`{text}` has an unknown expression");
    Ok(text)
}

/// Runs the action in a folder, with these inputs. Gives how its last step ended, and the summary.
pub(super) fn run(parent: &Path, given: &[(&str, &str)]) -> Result<(Done, String)> {
    let folder = paths::workspace().join(FOLDER);
    let action = fs::read_to_string(folder.join("action.yml"))?;
    let action: Action = serde_yaml_ng::from_str(&action).context("the action")?;
    ensure!(action.runs.using == "composite", "another kind of action");
    let mut inputs = BTreeMap::new();
    for (name, input) in action.inputs {
        let given = given.iter().find(|it| it.0 == name);
        let value = given.map(|it| it.1.to_owned()).or(input.default);
        inputs.insert(name.clone(), value.with_context(|| format!("no `{name}`"))?);
    }
    let files = parent.join("runner");
    // Of a run before.
    let _ = fs::remove_dir_all(&files);
    fs::create_dir_all(&files)?;
    let file = |name: &str| files.join(name);
    let mut last = None;
    for step in &action.runs.steps {
        ensure!(step.shell == "bash", "another shell");
        let mut command = Command::new("bash");
        for (name, _) in std::env::vars_os() {
            if is_kept_from_cargo(&name) || name == "RUSTFLAGS" {
                command.env_remove(name);
            }
        }
        let added = fs::read_to_string(file("path")).unwrap_or_default();
        let path = std::env::var("PATH")?;
        let path: String = added.lines().map(|it| format!("{it}:")).collect::<String>() + &path;
        let dir = step.dir.as_deref().unwrap_or(".");
        command
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &step.run])
            .current_dir(parent.join(filled(dir, &inputs)?))
            .env("PATH", path)
            .env("GITHUB_ACTION_PATH", &folder)
            .env("GITHUB_PATH", file("path"))
            .env("GITHUB_OUTPUT", file("output"))
            .env("GITHUB_STEP_SUMMARY", file("summary"))
            .env("RUNNER_TEMP", &files)
            .env("NO_COLOR", "1");
        for (name, value) in &step.env {
            command.env(name, filled(value, &inputs)?);
        }
        let done = Done::of(&command.output().context("cannot run bash")?);
        if done.code != Some(0) && step.name != "Check the budget" {
            bail!("{}: {}", step.name, done.stderr);
        }
        last = Some(done);
    }
    let output = fs::read_to_string(file("output"))?;
    let report = output
        .lines()
        .last()
        .and_then(|it| it.strip_prefix("report="));
    let report = fs::read_to_string(report.context("no output")?)?;
    serde_json::from_str::<serde_json::Value>(&report).context("the report is no JSON")?;
    let summary = fs::read_to_string(file("summary"))?;
    Ok((last.context("no step")?, summary))
}
