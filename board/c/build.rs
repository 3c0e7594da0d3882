//! Writes `takt.h` from the sources, for who builds the library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    #[cfg(feature = "image")]
    header();
}

#[cfg(feature = "image")]
fn header() {
    use cbindgen::{Builder, Config, DocumentationLength, DocumentationStyle, Language, Style};
    use std::{env, path::PathBuf};

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut config = Config {
        language: Language::C,
        style: Style::Tag,
        documentation: true,
        documentation_style: DocumentationStyle::Doxy,
        documentation_length: DocumentationLength::Full,
        include_guard: Some("TAKT_H".into()),
        no_includes: true,
        sys_includes: vec!["stdint.h".into()],
        header: Some("/* Takt's interface for C. Made by cbindgen from board/c. */".into()),
        after_includes: Some(include_str!("src/stack.h").into()),
        ..Config::default()
    };
    let names = [
        "Semaphore",
        "Mutex",
        "Condvar",
        "Flags",
        "Queue",
        "Timer",
        "Thread",
        "Stack",
    ];
    config.export.rename = names
        .map(|name| {
            (
                format!("Takt{name}"),
                format!("takt_{}", name.to_lowercase()),
            )
        })
        .into();
    let sources = [
        "result", "thread", "sync", "flags", "queue", "time", "timer", "trace",
    ];
    sources
        .iter()
        .fold(Builder::new().with_config(config), |builder, name| {
            builder.with_src(format!("src/{name}.rs"))
        })
        .generate()
        .expect("cbindgen reads the sources")
        .write_to_file(out.join("takt.h"));
}
