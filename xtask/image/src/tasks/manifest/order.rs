//! The order of calls. Whoever calls waits for the reply, so calls in a circle can wait for each other for ever. Where each goes to a more
//! important task there is no circle. What the manifest says to be `unordered` is left to the kernel, which refuses the call that would close one.

use anyhow::{Result, bail};

use super::{Right, Task};

/// Whom a task calls in order, by their names.
fn called(task: &Task) -> impl Iterator<Item = &str> {
    let ordered = |it: &&super::Peer| it.rights.contains(&Right::Call) && !it.unordered;
    let peers = task.peers.iter().filter(ordered);
    peers.map(|it| it.task.as_str())
}

/// Looks whether each call goes to a more important task; `line` is where the peers of one stand.
///
/// # Errors
///
/// If one does not: names those whose calls come back to the caller, or the two priorities.
pub(super) fn check(tasks: &[Task], line: impl Fn(usize) -> usize) -> Result<()> {
    let number = |name: &str| tasks.iter().position(|it| it.name == name);
    for (caller, task) in tasks.iter().enumerate() {
        for other in called(task).filter_map(number) {
            let callee = &tasks[other];
            if callee.priority > task.priority {
                continue;
            }
            let mut way = Vec::new();
            if leads(tasks, other, caller, &mut way) {
                let others = way.iter().rev();
                let others = others.map(|it| format!("`{}` (line {})", tasks[*it].name, line(*it)));
                bail!(
                    "line {}: calls go in a circle, from `{}` by {}: take one away, or say `unordered = true` of it, and \
                     whoever closes the circle gets `Deadlock`",
                    line(caller),
                    task.name,
                    others.collect::<Vec<_>>().join(" and ")
                );
            }
            bail!(
                "line {}: `{}`, of priority {}, calls `{}`, of priority {}: calls go to higher priorities, but for those of \
                 peers with `unordered = true`",
                line(caller),
                task.name,
                task.priority,
                callee.name,
                callee.priority
            );
        }
    }
    Ok(())
}

/// Whether calls lead from a task to another one. Puts those between into `way`, the last one first.
fn leads(tasks: &[Task], from: usize, to: usize, way: &mut Vec<usize>) -> bool {
    fn walk(
        tasks: &[Task],
        from: usize,
        to: usize,
        seen: &mut [bool],
        way: &mut Vec<usize>,
    ) -> bool {
        if from == to {
            return true;
        }
        if std::mem::replace(&mut seen[from], true) {
            return false;
        }
        let next =
            called(&tasks[from]).filter_map(|it| tasks.iter().position(|task| task.name == it));
        for next in next {
            if walk(tasks, next, to, seen, way) {
                way.push(from);
                return true;
            }
        }
        false
    }
    walk(tasks, from, to, &mut vec![false; tasks.len()], way)
}
