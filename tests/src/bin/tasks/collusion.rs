//! Budgets of tasks that could evade them, or keep the CPU from others, only together.

use takt_kernel::time::Nanos;
use takt_tests::{check, note, target_test};

use crate::budget::{BUDGET, SPENDER, code_of, keep_deadlines, nobody_is_late, overruns, start_at};
use crate::{CLIENT, KEEPER, SERVER};

/// The number of the task of that name.
const CONTROL: usize = 4;
const COLLUDES: u64 = 29;

target_test! {
    /// A budget that is lent ends while whoever is served by it closes a circle of calls, which is refused: others go on.
    fn a_circle_at_a_budgets_end(Alone) {
        const TIMES: u64 = 80;
        let server = start_at((SERVER.0, COLLUDES), 1, 30)?;
        let client = start_at((CLIENT.0, COLLUDES), 2, 30)?;
        let before = overruns(SPENDER);
        let spender = start_at((SPENDER.0, COLLUDES), TIMES << 20 | 25 << 8, 99)?;
        let latest = keep_deadlines(2 * TIMES + 10)?;
        let nr = overruns(SPENDER) - before;
        note!("{nr} overruns, {latest:?} late at most");
        check!(nr > TIMES / 4, "{nr} overruns");
        check!(latest <= BUDGET + BUDGET + Nanos::from_micros(5), "{latest:?} late");
        spender.succeeds()?;
        client.succeeds()?;
        server.succeeds()
    }

    /// Whoever calls is kept from running by its budget's end while it lends its priority along a chain, and another one's time-out has
    /// that lent on: the last one of the chain does not run for nothing.
    fn a_priority_is_lent_with_its_budget(Alone) {
        nobody_is_late((200..2_000).step_by(20), |before| {
            let last = start_at((CONTROL, COLLUDES), 6, 8)?;
            let second = start_at((KEEPER.0, COLLUDES), 5, 7)?;
            let first = start_at((SERVER.0, COLLUDES), 6_000 << 8 | 4, 6)?;
            let client = start_at((CLIENT.0, COLLUDES), 100 << 8 | 7, 20)?;
            let spender = start_at((SPENDER.0, COLLUDES), u64::from(before) << 8 | 3, 99)?;
            let latest = keep_deadlines(12)?;
            for task in [last, second, first, client, spender] {
                code_of(task)?;
            }
            Ok(latest)
        })
    }
}
