//! The real Linux PREEMPT_RT beside the real Takt.

use anyhow::{Context, Result, ensure};

use super::Stage;

/// Why Linux may not be there, which is no fault of ours.
const UNAVAILABLE: [&str; 2] = [
    "the packages of Linux PREEMPT_RT are not in",
    "it unpacks Debian's packages",
];

/// Whether an error says that Linux is not there.
pub(super) fn is_unavailable(error: &str) -> bool {
    UNAVAILABLE.iter().any(|why| error.contains(why))
}

/// Every limit holds in the idle system, each system took the samples that it was to take, and Takt's are those of
/// `latency-run` with the same flags.
pub(super) fn beside_takt(stage: &Stage) -> Result<()> {
    let dir = stage.dir("compare");
    let mut words = vec![
        "compare", "linux-rt", "-q", "-d", "300ms", "--json", "-", "-o", &dir,
    ];
    if !stage.may_install() {
        words.push("--no-install");
    }
    let done = stage.xtask(&words)?;
    if done.code == Some(1) && is_unavailable(&done.stderr) {
        tell!(
            "\nNOT TESTED: the comparison with Linux. {}\n",
            done.stderr.trim()
        );
        return Ok(());
    }
    let json = done.code(0)?.json()?;
    ensure!(json["result"] == "passed", "result {}", json["result"]);
    ensure!(
        json["linux"]["version"]
            .as_str()
            .is_some_and(|text| text.contains("PREEMPT_RT")),
        "Linux {}",
        json["linux"]["version"]
    );
    for latency in ["irq", "thread", "cyclictest"] {
        for system in ["linux", "takt"] {
            let count = &json[system][latency]["count"];
            ensure!(count == 300, "{system}: {count} samples of {latency}");
        }
    }
    let limits = json["limits"].as_array().context("no limits")?;
    ensure!(limits.len() == 7, "{} limits", limits.len());
    for limit in limits {
        ensure!(limit["holds"] == true, "{limit}");
    }

    let flags = "-d 300ms --warm-up 100ms -e timerlat --json -";
    let alone = stage.latency_run("alone", flags)?.code(0)?.json()?;
    for latency in ["irq", "thread"] {
        let (alone, beside) = (
            &alone["cpus"][0][latency]["hist"],
            &json["takt"][latency]["hist"],
        );
        ensure!(
            alone == beside,
            "{latency}: {alone} alone, {beside} in the comparison"
        );
    }
    Ok(())
}
