//! The ring against interrupts, preemption, consumers and observers.

mod consumer;
mod cpu;
mod interrupts;
mod model;
mod observer;
mod preemption;
mod snapshot;
mod text;
