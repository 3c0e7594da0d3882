//! The history and its commands. One binary, since each would be linked with all of xtask.

mod command;
mod common;
mod compare_runs;
mod damage;
mod history;
mod keeping;
mod opening;
mod page;
