//! What of QEMU's command line the play needs.

use std::path::PathBuf;

/// The arguments.
pub(crate) struct Arguments {
    /// The RAM file.
    pub(crate) ram: PathBuf,
    /// Its size in bytes.
    pub(crate) ram_size: u64,
    /// The image.
    pub(crate) image: PathBuf,
    /// Where the virtio console writes.
    pub(crate) capture: PathBuf,
    /// Where the serial port writes.
    pub(crate) serial: PathBuf,
    /// The kernel's command line.
    pub(crate) cmdline: String,
}

impl Arguments {
    /// Takes them out of the command line.
    pub(crate) fn parse(args: &[String]) -> Self {
        let after = |name: &str, has: &str| {
            let found = args
                .windows(2)
                .find(|pair| pair[0] == name && pair[1].contains(has));
            found.unwrap_or_else(|| panic!("no {name} with {has}"))[1].clone()
        };
        let backend = after("-object", "id=ram");
        Self {
            ram: property(&backend, "mem-path").into(),
            ram_size: property(&backend, "size")
                .trim_end_matches('M')
                .parse::<u64>()
                .expect("a size")
                << 20,
            image: after("-kernel", "").into(),
            capture: property(&after("-chardev", "id=cap"), "path").into(),
            serial: property(&after("-chardev", "id=ser"), "path").into(),
            cmdline: after("-append", ""),
        }
    }

    /// The value of `key=` on the kernel's command line.
    pub(crate) fn key(&self, key: &str) -> Option<&str> {
        self.cmdline
            .split(' ')
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }
}

/// The value of a property in a comma-separated list.
fn property(list: &str, name: &str) -> String {
    let value = list
        .split(',')
        .find_map(|item| item.strip_prefix(name)?.strip_prefix('='));
    value
        .unwrap_or_else(|| panic!("no {name} in {list}"))
        .to_owned()
}
