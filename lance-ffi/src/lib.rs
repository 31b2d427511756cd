//! A small C ABI over the Lance crate, for the Go library lanceknn. The header is `include/lance_ffi.h`.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod abi;
mod ahead;
#[cfg(target_os = "linux")]
mod alloc;
pub mod dataset;
mod describe;
mod direct;
pub mod error;
pub mod ffi;
mod filter;
pub mod index;
mod metrics;
pub mod namespace;
mod place;
mod prewarm;
mod probe;
mod runtime;
mod scan;
mod search;
mod vectors;
mod warm;
pub mod write;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: alloc::Reserving = alloc::Reserving;
