//! rtla's tables of noise.

use std::fmt::Write;

use super::{Measured, OfCpu};

/// Microseconds, with decimals where a nanosecond counts.
fn micros(ns: u64) -> String {
    match ns % 1000 {
        0 => (ns / 1000).to_string(),
        rest => format!("{}.{rest:03}", ns / 1000),
    }
}

/// The share that was left, in per cent with five decimals, rounded down.
fn available(cpu: &OfCpu) -> String {
    let left = cpu.runtime_ns.saturating_sub(cpu.noise_ns);
    let share = u128::from(left) * 10_000_000 / u128::from(cpu.runtime_ns.max(1));
    format!("{}.{:05}", share / 100_000, share % 100_000)
}

/// Which columns there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// All: interrupts, deferred work and threads.
    All,
    /// What is left with interrupts off.
    Hardware,
}

/// What a column counts.
type Count = fn(&OfCpu) -> u64;

/// `rtla osnoise top` and `rtla hwnoise`, as after the last update of the screen.
#[must_use]
pub fn top(measured: &Measured, columns: Columns, has_turns: bool) -> String {
    let mut counts: Vec<(&str, Count)> = vec![("HW", |cpu| cpu.hw)];
    if has_turns {
        counts.push(("Turns", |cpu| cpu.turns));
    }
    counts.push(("NMI", |cpu| cpu.nmi));
    if columns == Columns::All {
        counts.push(("IRQ", |cpu| cpu.irq));
        counts.push(("Softirq", |cpu| cpu.softirq));
        counts.push(("Thread", |cpu| cpu.thread));
    }
    let title = match columns {
        Columns::All => "Operating System Noise",
        Columns::Hardware => "Hardware-related Noise",
    };
    let mut out = format!("{title:>64}\ntime is in us\n");
    out += "CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single";
    for (name, _) in &counts {
        // Writing to a String does not fail.
        let _ = write!(out, " {name:>12}");
    }
    out.push('\n');
    // As rtla, without a line for a CPU of which no sampling is over.
    let sampled = measured.cpus.iter().filter(|(_, cpu)| cpu.count > 0);
    for (number, cpu) in sampled {
        let _ = write!(
            out,
            "{number:>3} #{:<9} {:>10} {:>12} {:>11} {:>11} {:>12}",
            cpu.count,
            cpu.runtime_ns / 1000,
            micros(cpu.noise_ns),
            available(cpu),
            micros(cpu.max_noise_ns),
            micros(cpu.max_single_ns)
        );
        for (_, count) in &counts {
            let _ = write!(out, " {:>12}", count(cpu));
        }
        out.push('\n');
    }
    out
}

/// `rtla osnoise hist`: buckets of `width` ns, `entries` of them.
#[must_use]
pub fn hist(measured: &Measured, width: u64, entries: u64) -> String {
    let width = width.max(1);
    let cpus: Vec<_> = measured.cpus.values().collect();
    let mut out = "# RTLA osnoise histogram\n# Time unit is microseconds (us)\nIndex".to_owned();
    for number in measured.cpus.keys() {
        let _ = write!(out, "   CPU-{number:03}");
    }
    out.push('\n');
    let mut line = |name: &str, cell: &dyn Fn(&OfCpu) -> String| {
        let _ = write!(out, "{name:<6}");
        for cpu in &cpus {
            let _ = write!(out, "{:>9} ", cell(cpu));
        }
        out.push('\n');
    };
    let in_bucket = |cpu: &OfCpu, index: u64| -> u64 {
        let bucket = cpu.singles.range(index * width..(index + 1) * width);
        bucket.map(|(_, count)| count).sum()
    };
    let mut indices: Vec<_> = cpus
        .iter()
        .flat_map(|cpu| cpu.singles.keys().map(|ns| ns / width))
        .filter(|index| *index < entries)
        .collect();
    indices.sort_unstable();
    indices.dedup();
    for index in indices {
        line(&micros(index * width), &|cpu| {
            in_bucket(cpu, index).to_string()
        });
    }
    line("over:", &|cpu| {
        let over = cpu.singles.range(entries.saturating_mul(width)..);
        over.map(|(_, count)| count).sum::<u64>().to_string()
    });
    let count = |cpu: &OfCpu| cpu.singles.values().sum::<u64>();
    let shown = |ns: Option<u64>| ns.map_or_else(|| "-".into(), micros);
    line("count:", &|cpu| count(cpu).to_string());
    line("min:", &|cpu| shown(cpu.singles.keys().next().copied()));
    line("avg:", &|cpu| {
        let sum: u64 = cpu.singles.iter().map(|(ns, count)| ns * count).sum();
        shown(sum.checked_div(count(cpu)))
    });
    line("max:", &|cpu| {
        shown(cpu.singles.keys().next_back().copied())
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        let cpu = OfCpu {
            count: 4,
            runtime_ns: 4_000_000_000,
            noise_ns: 1_571_000,
            max_noise_ns: 502_000,
            max_single_ns: 294_000,
            irq: 1007,
            thread: 117,
            turns: 3,
            singles: [(6_100, 1), (8_000, 10), (294_000, 2)].into(),
            ..OfCpu::default()
        };
        Measured {
            cpus: [(0, cpu)].into(),
            ..Measured::default()
        }
    }

    #[test]
    fn the_columns_are_rtlas() {
        let text = top(&measured(), Columns::All, false);
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single           HW          NMI          IRQ      Softirq       Thread",
                "  0 #4            4000000         1571    99.96072         502          294            0            0         1007            0          117",
            ]
        );
        let with_turns = top(&measured(), Columns::Hardware, true);
        assert!(
            with_turns.contains("HW        Turns          NMI\n"),
            "{with_turns}"
        );
    }

    #[test]
    fn noises_are_counted_in_buckets() {
        assert_eq!(
            hist(&measured(), 1000, 256),
            "# RTLA osnoise histogram\n# Time unit is microseconds (us)\nIndex   CPU-000\n6             1 \n8            10 \n\
             over:         2 \ncount:       13 \nmin:      6.100 \navg:     51.853 \nmax:        294 \n"
        );
    }
}
