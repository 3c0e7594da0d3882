//! Links this crate's images as the board says. The linker scripts are found through the board's search path.

fn main() {
    let args = std::env::var("DEP_TAKT_LINK_ARGS").expect("the board's build script says them");
    for arg in args.split(' ') {
        println!("cargo::rustc-link-arg-bins={arg}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
