//! Values of a set with names, as serde writes them: by name. For `#[serde(with = "takt_guest::named")]`.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;
use takt_tracer::named::Named;

/// Writes the name.
///
/// # Errors
///
/// Those of the serializer.
pub fn serialize<T: Named, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.name())
}

/// Reads a name.
///
/// # Errors
///
/// If the set has none of it.
pub fn deserialize<'d, T: Named, D: Deserializer<'d>>(deserializer: D) -> Result<T, D::Error> {
    let name = String::deserialize(deserializer)?;
    T::from_name(&name).ok_or_else(|| D::Error::custom(format_args!("`{name}` is not known here")))
}
