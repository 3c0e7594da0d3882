//! Makes the linker scripts findable for every image and links this crate's own image with them.

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    // Search paths travel to every crate that links this one; the arguments below do not.
    println!("cargo:rustc-link-search={here}/ld");
    println!("cargo:rustc-link-search={here}/../tracer");
    for arg in include_str!("ld/link-args.txt")
        .lines()
        .filter(|l| !l.is_empty())
    {
        println!("cargo:rustc-link-arg-bins={arg}");
        println!("cargo:rustc-link-arg-examples={arg}");
    }
    println!("cargo:rerun-if-changed=ld");
    println!("cargo:rerun-if-changed=build.rs");
}
