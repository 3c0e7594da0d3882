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
    tasks();
    println!("cargo::rerun-if-changed=ld");
    println!("cargo::rerun-if-changed=build.rs");
}

/// Puts what xtask has made of a manifest's tasks (`TAKT_TASKS`) where `src/tasks.rs` includes it; without it there are none.
fn tasks() {
    if std::env::var_os("CARGO_FEATURE_TASKS").is_none() {
        return;
    }
    println!("cargo::rerun-if-env-changed=TAKT_TASKS");
    let text = match std::env::var("TAKT_TASKS") {
        Ok(path) => {
            println!("cargo::rerun-if-changed={path}");
            std::fs::read_to_string(path).expect("xtask has made the file")
        }
        Err(_) => "use takt_kernel::task::Task;\nstatic TASKS: [Task; 0] = [];\nstatic EVENTS: [takt_kernel::task::Event; 0] = [];\nconst ARGUMENTS: &[u64] = &[];\n\
                   const UNTIL: Option<usize> = None;\nconst NR_BUDGETS: usize = 0;\nconst FEEDER: Option<(usize, u32)> = None;\nconst WITHOUT_DMA: &[(usize, usize)] = &[];\n\
                   const PORTS_WITHOUT_DMA: &[(u16, u16)] = &[];\n"
            .into(),
    };
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(format!("{out}/tasks.rs"), text).expect("OUT_DIR can be written to");
}
