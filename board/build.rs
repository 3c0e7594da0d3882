//! Makes the linker scripts findable for every image, links this crate's own images with them, and tells the build scripts
//! of other images the linker's arguments: in `DEP_TAKT_LINK_ARGS`, with a space between each two.

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    // Search paths travel to every crate that links this one; the arguments below do not.
    println!("cargo::rustc-link-search={here}/ld");
    println!("cargo::rustc-link-search={here}/../tracer");
    let args: Vec<_> = include_str!("ld/link-args.txt")
        .lines()
        .filter(|line| !line.is_empty())
        .collect();
    for arg in &args {
        println!("cargo::rustc-link-arg-bins={arg}");
        println!("cargo::rustc-link-arg-examples={arg}");
    }
    println!("cargo::metadata=LINK_ARGS={}", args.join(" "));
    println!("cargo::rerun-if-changed=ld");
    println!("cargo::rerun-if-changed=build.rs");
}
