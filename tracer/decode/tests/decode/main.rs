//! From the event macros through the ring and a file to the lines that a human or a program reads.

mod corruption;
mod events;
mod filter;
mod formats;
mod ftrace;
mod functions;
mod gaps;
mod merge;
mod metadata;
mod near;
mod program;
mod rules;
mod shown;
mod sub;
mod world;
