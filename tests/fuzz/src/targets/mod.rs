//! The targets. Each module has `run`, which takes any bytes, and `seeds`, inputs to begin with.

use crate::Target;

macro_rules! targets {
    ($($name:ident)*) => {
        $(pub mod $name;)*

        /// All of them.
        pub const ALL: &[Target] = &[
            $(Target { name: stringify!($name), run: $name::run, seeds: $name::seeds },)*
        ];
    };
}

targets! { capture command_line filter log rings rtt rules settings shell status trace_file trace_meta }

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs every seed, every beginning of it, and it with each byte changed.
    fn try_all(target: &Target) {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty());
        for seed in seeds {
            (target.run)(&seed);
            let step = seed.len() / 200 + 1;
            for at in (0..seed.len()).step_by(step) {
                (target.run)(&seed[..at]);
                let mut changed = seed.clone();
                changed[at] ^= 1 << (at % 8);
                (target.run)(&changed);
                changed[at] = 0xff;
                (target.run)(&changed);
            }
        }
    }

    #[test]
    fn seeds_and_what_is_near_them() {
        for target in ALL {
            println!("{}", target.name);
            try_all(target);
        }
    }
}
