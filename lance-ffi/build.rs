//! Tells the crate what it is compiled for, so that the library can say so.

use std::env;
use std::process::Command;

fn main() {
    let target = env::var("TARGET").unwrap_or_default();
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let cpu = flags
        .split('\u{1f}')
        .filter_map(|flag| flag.trim_start_matches("-C").trim().strip_prefix("target-cpu="))
        .next_back()
        .unwrap_or("generic");
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|out| String::from_utf8(out.stdout).ok())
        .unwrap_or_default();
    println!("cargo::rustc-env=LANCE_FFI_TARGET={target}");
    println!("cargo::rustc-env=LANCE_FFI_TARGET_CPU={cpu}");
    println!("cargo::rustc-env=LANCE_FFI_RUSTC={}", version.trim());
    println!("cargo::rerun-if-changed=build.rs");
}
