//! The targets. Each module has `run`, which takes any bytes, and `seeds`, inputs to begin with.

pub mod capture;
pub mod command_line;
pub mod filter;
pub mod log;
pub mod rings;
pub mod rtt;
pub mod rules;
pub mod settings;
pub mod shell;
pub mod status;
pub mod trace_file;
pub mod trace_meta;

#[cfg(test)]
mod tests {
    /// Runs every seed, every beginning of it, and it with each byte changed.
    fn try_all(run: fn(&[u8]), seeds: Vec<Vec<u8>>) {
        assert!(!seeds.is_empty());
        for seed in seeds {
            run(&seed);
            let step = seed.len() / 200 + 1;
            for at in (0..seed.len()).step_by(step) {
                run(&seed[..at]);
                let mut changed = seed.clone();
                changed[at] ^= 1 << (at % 8);
                run(&changed);
                changed[at] = 0xff;
                run(&changed);
            }
        }
    }

    macro_rules! targets {
        ($($name:ident)*) => { $(
            #[test]
            fn $name() {
                try_all(super::$name::run, super::$name::seeds());
            }
        )* };
    }

    targets! { capture command_line filter log rings rtt rules settings shell status trace_file trace_meta }
}
