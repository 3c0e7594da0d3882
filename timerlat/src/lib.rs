//! timerlat and cyclictest for Takt: the workloads that measure latency, the loads to measure
//! against, and the configuration and the statistics, which the host uses as well.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod config;
pub mod stats;
pub mod sweep;

#[cfg(feature = "workload")]
pub mod workload;
