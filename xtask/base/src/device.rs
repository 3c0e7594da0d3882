//! [`Device`]: where a serial line is.

use std::fmt;
use std::str::FromStr;

/// Where a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// A serial port, or a pseudo-terminal.
    Path(String),
    /// `tcp:HOST:PORT`.
    Tcp(String),
    /// `unix:PATH`.
    Unix(String),
}

impl FromStr for Device {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once(':') {
            Some(("tcp", address)) => Self::Tcp(address.into()),
            Some(("unix", path)) => Self::Unix(path.into()),
            _ => Self::Path(text.into()),
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Unix(path) => write!(f, "unix:{path}"),
        }
    }
}
