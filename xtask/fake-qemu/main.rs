//! Plays QEMU and a guest for the tests of `xtask`: understands QEMU's arguments, writes to the
//! guest's RAM file and to the capture as a guest would, and ends as `FAKE_GUEST` says.
//!
//! With an initramfs it plays Linux instead, as `FAKE_LINUX` says. `FAKE_GUEST_PID`, if set, names a file for this process's id.
#![forbid(unsafe_code)]

mod arguments;
mod guest;
mod linux;
mod monitor;
mod sub_buffer;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|arg| arg == "--version") {
        println!("QEMU emulator version 0.0.0 (fake)");
        return ExitCode::SUCCESS;
    }
    // As a QEMU that was built without plugins: the option is not in its help.
    if args.iter().any(|arg| arg == "-help") {
        println!("usage: fake-qemu [options]");
        return ExitCode::SUCCESS;
    }
    if let Some(path) = std::env::var_os("FAKE_GUEST_PID") {
        std::fs::write(path, std::process::id().to_string()).expect("the pid file");
    }
    let scenario = std::env::var("FAKE_GUEST").unwrap_or_else(|_| "pass".into());
    if scenario == "bad-arguments" {
        eprintln!("fake-qemu: -icount: no such thing");
        return ExitCode::from(1);
    }
    if args.iter().any(|arg| arg == "-initrd") {
        return linux::play(&args);
    }
    if args.iter().any(|arg| arg == "-mon") {
        std::thread::spawn(monitor::play);
    }
    let arguments = arguments::Arguments::parse(&args);
    guest::play(&scenario, &guest::Guest::new(&arguments))
}
