//! Links this crate's images as the board's are linked. The linker scripts are found through the board's search path.

fn main() {
    for arg in include_str!("../board/ld/link-args.txt")
        .lines()
        .filter(|line| !line.is_empty())
    {
        println!("cargo:rustc-link-arg-bins={arg}");
    }
    println!("cargo:rerun-if-changed=../board/ld");
    println!("cargo:rerun-if-changed=build.rs");
}
