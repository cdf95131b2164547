//! Compiles the kernel programs with clang, and generates their loader and the Rust side of `bpf/wire.h`.

#[path = "build/contract.rs"]
mod contract;

use std::path::{Path, PathBuf};

const FLAGS: [&str; 6] = ["-I", "bpf", "-Wall", "-Werror", "-Wno-unused-function", "-mcpu=v3"];

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=build");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let built = libbpf_cargo::SkeletonBuilder::new()
        .source("bpf/wirespan.bpf.c")
        .obj(out.join("wirespan.bpf.o"))
        .clang_args(FLAGS)
        .build_and_generate(out.join("wirespan.skel.rs"));
    if let Err(error) = built {
        eprintln!("the kernel programs did not compile: {error:#}");
        eprintln!("clang 14 or newer and libelf are needed: `make deps` installs them");
        std::process::exit(1);
    }
    if let Err(error) = generate_contract(&out) {
        eprintln!("bpf/wire.h was not understood: {error}");
        std::process::exit(1);
    }
}

fn generate_contract(out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let header = std::fs::read_to_string("bpf/wire.h")?;
    let (source, object) = (out.join("contract.bpf.c"), out.join("contract.bpf.o"));
    std::fs::write(&source, contract::source(&header))?;
    libbpf_cargo::SkeletonBuilder::new().source(source).obj(&object).clang_args(FLAGS).build()?;
    std::fs::write(out.join("contract.rs"), contract::types(&header, &object)?)?;
    Ok(())
}
