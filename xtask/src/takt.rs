//! `takt`: `cargo xtask` by the name under which it is installed.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    xtask::main()
}
