//! Budgets of tasks that could evade them, or keep the CPU from others, only together.

use takt_kernel::time::Nanos;
use takt_tests::{check, note, target_test};

use crate::budget::{BUDGET, SPENDER, keep_deadlines, overruns, start_at};
use crate::{CLIENT, SERVER};

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
}
