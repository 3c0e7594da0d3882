//! [`Registers`]: where the CPUs of a guest stand, as QEMU's monitor prints it.

/// The interrupt flag in RFLAGS (Intel SDM vol. 1, 3.4.3.3).
const IF: u64 = 1 << 9;

/// What a CPU was doing when the guest was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Number of the CPU.
    pub cpu: u8,
    /// The instruction that comes next.
    pub ip: u64,
    /// RFLAGS.
    pub flags: u64,
    /// It waits for an interrupt.
    pub is_halted: bool,
}

impl Registers {
    /// Whether an interrupt would be taken.
    #[must_use]
    pub fn has_interrupts_on(&self) -> bool {
        self.flags & IF != 0
    }

    /// Those of all CPUs, out of what `info registers -a` prints. What has another form is passed over.
    #[must_use]
    pub fn parse(text: &str) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for line in text.lines() {
            if let Some(number) = line.trim().strip_prefix("CPU#") {
                all.extend(number.parse().ok().map(|cpu| Self {
                    cpu,
                    ..Self::default()
                }));
            }
            let Some(last) = all.last_mut() else {
                continue;
            };
            for word in line.split_whitespace() {
                // By another name in a CPU that was not started.
                let hex = |names: [&str; 2]| {
                    let digits = names.iter().find_map(|name| word.strip_prefix(name))?;
                    u64::from_str_radix(digits, 16).ok()
                };
                last.ip = hex(["RIP=", "EIP="]).unwrap_or(last.ip);
                last.flags = hex(["RFL=", "EFL="]).unwrap_or(last.flags);
                last.is_halted |= word == "HLT=1";
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_monitor_prints_is_read() {
        let text = "\r\nCPU#0\r\nRAX=0000000000000001 RBX=00000000deadbeef\r\n\
                    RIP=0000000000201234 RFL=00000246 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1\r\n\r\n\
                    CPU#1\r\nEIP=0000fff0 EFL=00000002 [-------] CPL=0 II=0 A20=1 SMM=0 HLT=0\r\n";
        let found = Registers::parse(text);
        let [first, second] = &*found else {
            panic!("{found:?}")
        };
        assert_eq!((first.cpu, first.ip, first.is_halted), (0, 0x20_1234, true));
        assert!(first.has_interrupts_on() && !second.has_interrupts_on());
        assert_eq!(
            (second.cpu, second.ip, second.is_halted),
            (1, 0xfff0, false)
        );
        for odd in [
            "",
            "RIP=1\nCPU#x\nRIP=2",
            "unknown command: 'info registers'",
        ] {
            assert_eq!(Registers::parse(odd), [], "{odd}");
        }
        assert_eq!(Registers::parse("CPU#3\nRIP=z")[0].ip, 0);
    }
}
