//! The order of calls. Whoever calls waits for the reply, so calls in a circle can wait for each other for ever. Where each goes to a more
//! important task there is no circle. What the manifest says to be `unordered` is left to the kernel, which refuses the call that would
//! close one.

use std::collections::HashMap;

use anyhow::{Result, bail};

use takt_scheduler::pi::MAX_CHAIN;

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

/// Looks whether there are few enough whom a task may come to wait for, each for the next: by calls, and once it is stopped for its
/// supervisor. Tasks that call each other in circles count as all of them.
///
/// # Errors
///
/// If there are more than the kernel follows.
pub(super) fn check_chains(tasks: &[Task], line: impl Fn(usize) -> usize) -> Result<()> {
    let mut leads: Vec<Vec<bool>> = tasks
        .iter()
        .map(|task| {
            let calls = |it: &&super::Peer| it.rights.contains(&Right::Call);
            let others = task.peers.iter().filter(calls).map(|it| &it.task);
            let others: Vec<_> = others.chain(&task.supervisor).collect();
            tasks.iter().map(|it| others.contains(&&it.name)).collect()
        })
        .collect();
    for over in 0..tasks.len() {
        let further = leads[over].clone();
        for from in leads.iter_mut().filter(|it| it[over]) {
            from.iter_mut().zip(&further).for_each(|(to, it)| *to |= it);
        }
    }
    let mut known = HashMap::new();
    for (number, task) in tasks.iter().enumerate() {
        let nr = longest(&leads, number, &mut known) - 1;
        if nr > MAX_CHAIN {
            bail!(
                "line {}: `{}` can come to wait for {nr} others, each for the next: {MAX_CHAIN} is the most",
                line(number),
                task.name
            );
        }
    }
    Ok(())
}

/// How many tasks there are at most on a way that begins with this one, where `leads` says who comes to wait for whom.
fn longest(leads: &[Vec<bool>], from: usize, known: &mut HashMap<usize, usize>) -> usize {
    if let Some(nr) = known.get(&from) {
        return *nr;
    }
    let is_equal = |it: &usize| *it == from || leads[from][*it] && leads[*it][from];
    let all = 0..leads.len();
    let beyond = all.clone().filter(|it| leads[from][*it] && !is_equal(it));
    let beyond = beyond.map(|it| longest(leads, it, known)).max();
    let nr = all.filter(is_equal).count() + beyond.unwrap_or(0);
    known.insert(from, nr);
    nr
}
