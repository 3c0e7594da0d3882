//! The multiset of priorities against a plain vector.

use proptest::prelude::*;
use takt_scheduler::{PrioCounts, Priority};

fn prio(raw: u8) -> Priority {
    Priority::new(raw).expect("a priority is 0 to 99")
}

proptest! {
    #[test]
    fn follows_the_model(ops in prop::collection::vec((0u8..100, any::<bool>()), 1..250)) {
        let mut counts = PrioCounts::new();
        let mut model: Vec<u8> = Vec::new();
        for (raw, add) in ops {
            if add || model.is_empty() {
                counts.add(prio(raw));
                model.push(raw);
            } else {
                let gone = model.swap_remove(usize::from(raw) % model.len());
                if model.is_empty() {
                    counts.remove_only(prio(gone));
                } else {
                    counts.remove(prio(gone));
                }
            }
            prop_assert_eq!(counts.top().map(Priority::raw), model.iter().copied().max());
        }
    }
}

#[test]
fn holds_255_of_one_priority() {
    let mut counts = PrioCounts::new();
    for _ in 0..255 {
        counts.add(prio(7));
    }
    for _ in 0..254 {
        counts.remove(prio(7));
    }
    assert_eq!(counts.top(), Some(prio(7)));
    counts.remove(prio(7));
    assert_eq!(counts.top(), None);
}
