//! Links the images as the board says, and writes the trace events of the footprint images.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Without the board there are no images.
    let args = env::var("DEP_TAKT_LINK_ARGS").unwrap_or_default();
    for arg in args.split_whitespace() {
        println!("cargo::rustc-link-arg-bins={arg}");
    }
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    for nr in [0, 1, 100, 200] {
        for (name, has_own_class) in [("shared", false), ("own", true)] {
            let path = Path::new(&out).join(format!("events_{nr}_{name}.rs"));
            fs::write(path, events(nr, has_own_class)).expect("OUT_DIR can be written to");
        }
    }
}

/// `nr` events of two fields, and a function that emits each of them at a place of its own.
fn events(nr: usize, has_own_class: bool) -> String {
    let mut text = String::new();
    let nr_classes = if has_own_class { nr } else { nr.min(1) };
    for class in 0..nr_classes {
        // Own classes differ in what a class is: its name, its fields' names and its print format.
        write!(
            text,
            "takt_tracer::event_class! {{\n    /// A class.\n    pub class C{class} = \"footprint_{class}\", wide \
             {{ first_{class}: 32 u, second_{class}: 32 x }}\n    print \
             \"first={{first_{class}}} second={{second_{class}}}\";\n}}\n"
        )
        .expect("writing to a String does not fail");
    }
    for event in 0..nr {
        let class = if has_own_class { event } else { 0 };
        write!(
            text,
            "takt_tracer::event! {{\n    /// Emitted by `sites`.\n    pub e{event}: C{class} = wide \
             \"footprint:e{event}\";\n}}\n"
        )
        .expect("writing to a String does not fail");
    }
    text += "\n/// Every event once, each with two fields of an object as arguments, as real places have them.\n";
    text += "#[inline(never)]\nfn sites(object: &[u32; 512]) {\n    let _ = object;\n";
    for event in 0..nr {
        let (first, second) = (event, 511 - event);
        writeln!(
            text,
            "    takt_kernel::trace_event!(e{event}, object[{first}], object[{second}]);"
        )
        .expect("writing to a String does not fail");
    }
    text += "}\n\ntakt_board::entry!(main);\n\nfn main(command_line: &'static str) {\n";
    text + "    sites(core::hint::black_box(&[command_line.len() as u32; 512]));\n}\n"
}
