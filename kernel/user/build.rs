//! Makes the linker script of tasks findable for whatever links this crate.

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo::rustc-link-search={here}/ld");
    println!("cargo::rerun-if-changed=ld");
    println!("cargo::rerun-if-changed=build.rs");
}
