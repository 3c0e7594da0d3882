//! Which accelerator, and why.

use std::fs::OpenOptions;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use takt_tracer::named;

named! {
    /// The accelerator asked for.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum AccelChoice {
        /// KVM where it works, else TCG.
        Auto = "auto",
        /// Hardware virtualisation: real time.
        Kvm = "kvm",
        /// QEMU's translator: with icount, virtual time that counts instructions.
        Tcg = "tcg",
    }
}

/// An accelerator with its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Accel {
    /// Hardware virtualisation.
    #[serde(rename = "kvm")]
    Kvm,
    /// QEMU's translator, one virtual nanosecond an instruction.
    #[serde(rename = "tcg+icount")]
    TcgIcount,
    /// QEMU's translator, the host's clock.
    #[serde(rename = "tcg")]
    Tcg,
    /// None: a machine that is not QEMU's, as far as we know, which sends its run over a serial line.
    #[serde(rename = "machine")]
    Machine,
}

impl Accel {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::TcgIcount => "tcg+icount",
            Self::Tcg => "tcg",
            Self::Machine => "machine",
        }
    }

    /// The clock that the guest sees.
    #[must_use]
    pub fn clock(self) -> &'static str {
        match self {
            Self::Kvm => "the host's TSC",
            Self::TcgIcount => "virtual: counts guest instructions, skips idle time",
            Self::Tcg => "the host's clock, seen through the translator",
            Self::Machine => "the machine's TSC",
        }
    }

    /// What a nanosecond of a latency means.
    #[must_use]
    pub fn ns_means(self) -> &'static str {
        match self {
            Self::Kvm => "real time on this host, exits to the hypervisor included",
            Self::TcgIcount => "one guest instruction; every run is the same to the bit",
            Self::Tcg => "real time of QEMU's translator and the host: says nothing about hardware",
            Self::Machine => "real time of the machine, if it is not an emulated one",
        }
    }
}

/// A choice and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selected {
    /// The accelerator.
    pub accel: Accel,
    /// Why this one.
    pub why: String,
}

/// Chooses. `probe` boots the image under KVM and says what is wrong if that does not work; it is
/// called only where KVM looks usable.
///
/// # Errors
///
/// If KVM is demanded and does not work.
pub fn select(
    choice: AccelChoice,
    icount: bool,
    probe: impl FnOnce() -> Result<(), String>,
) -> Result<Selected> {
    let tcg = if icount { Accel::TcgIcount } else { Accel::Tcg };
    if choice == AccelChoice::Tcg {
        return Ok(Selected {
            accel: tcg,
            why: "as asked".into(),
        });
    }
    match (kvm_looks_usable().and_then(|()| probe()), choice) {
        (Ok(()), _) => Ok(Selected {
            accel: Accel::Kvm,
            why: "vmx or svm is there, and a probe boot worked".into(),
        }),
        (Err(why), AccelChoice::Kvm) => bail!("KVM cannot be used: {why}"),
        (Err(why), _) => Ok(Selected {
            accel: tcg,
            why: format!("no KVM: {why}"),
        }),
    }
}

/// Whether a probe boot is worth the try. `/dev/kvm` that opens proves nothing: hosts without the
/// CPU flag were seen whose KVM fails at the first SSE instruction.
///
/// # Errors
///
/// What is missing.
pub fn kvm_looks_usable() -> Result<(), String> {
    let info = takt_base::input::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if !has_virtualisation(&info) {
        return Err("neither vmx nor svm in the CPU's flags".into());
    }
    let kvm = OpenOptions::new().read(true).write(true).open("/dev/kvm");
    kvm.map(drop)
        .map_err(|error| format!("/dev/kvm cannot be opened ({error})"))
}

/// Whether `/proc/cpuinfo` names one of the two extensions.
fn has_virtualisation(cpuinfo: &str) -> bool {
    cpuinfo
        .lines()
        .filter(|line| line.starts_with("flags"))
        .flat_map(str::split_whitespace)
        .any(|flag| flag == "vmx" || flag == "svm")
}

/// The host CPU's name, as the kernel gives it.
#[must_use]
pub fn host_cpu() -> String {
    let info = takt_base::input::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or_else(|| "unknown".into(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_whole_words() {
        assert!(has_virtualisation("flags\t: fpu vmx sse"));
        assert!(has_virtualisation("flags : svm"));
        assert!(!has_virtualisation("flags\t: fpu svm_lock vmx_flags"));
        assert!(!has_virtualisation("vmx flags : vmx"));
    }

    #[test]
    fn what_is_demanded_is_not_second_guessed() {
        let never = || unreachable!("no probe for TCG");
        let tcg = select(AccelChoice::Tcg, true, never).unwrap();
        assert_eq!(tcg.accel, Accel::TcgIcount);
        let failing = || Err("it hangs".to_owned());
        assert!(select(AccelChoice::Kvm, true, failing).is_err());
        let auto = select(AccelChoice::Auto, false, failing).unwrap();
        assert_eq!(auto.accel, Accel::Tcg);
        assert!(auto.why.starts_with("no KVM: "));
    }
}
