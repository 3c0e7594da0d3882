//! The history and its commands. One binary, since each would be linked with all of takt-report.

mod command;
mod common;
mod compare;
mod database;
mod history;
mod opening;
mod page;
mod read_only;
mod schema;
