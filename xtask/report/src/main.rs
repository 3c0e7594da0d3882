//! `takt-report`: see the library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    takt_report::main()
}
