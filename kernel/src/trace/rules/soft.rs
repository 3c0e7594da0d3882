//! Events whose places are on for triggers, or for a tracer that listens to records, and not because they were switched on.

use takt_tracer::rules::Rule;

use super::table::TAKT_RULES;
#[cfg(feature = "osnoise")]
use crate::trace::osnoise::noise;

/// Whether the event occurs for triggers only, or for a tracer that listens.
pub(in crate::trace) fn is_soft(event: u32) -> bool {
    #[cfg(feature = "osnoise")]
    if noise::is_soft(event) {
        return true;
    }
    TAKT_RULES.find(event).is_some_and(Rule::is_soft)
}

/// An event that occurs for triggers, or that a tracer listens to, is switched on or off: its places stay on. Says whether that is all there is to do.
#[inline(never)]
pub(in crate::trace) fn keep_on(event: u32, on: bool) -> bool {
    let is_kept = TAKT_RULES.is_kept(event);
    let rule = TAKT_RULES.find(event).filter(|_| is_kept);
    if let Some(rule) = rule {
        rule.want(on);
    }
    #[cfg(feature = "osnoise")]
    return noise::keep_on(event, on) || rule.is_some();
    #[cfg(not(feature = "osnoise"))]
    rule.is_some()
}
