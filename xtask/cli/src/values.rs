//! Choices on the command line.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use takt_tracer::named::Named;

/// Takes the names of a set, with what each is about in the help.
pub(super) fn named<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let values = T::ALL
        .iter()
        .map(|it| PossibleValue::new(it.name()).help(it.about().trim_end_matches('.')));
    PossibleValuesParser::new(values)
        .map(|name| T::from_name(&name).expect("clap takes no other name than those of the set"))
}
