//! Plays QEMU.
fn main() {}
