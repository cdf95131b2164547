//! Compiles the kernel programs with clang and generates their loader.

use std::path::PathBuf;

fn main() {
    let bpf = PathBuf::from("bpf");
    println!("cargo:rerun-if-changed=bpf");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let built = libbpf_cargo::SkeletonBuilder::new()
        .source(bpf.join("wirespan.bpf.c"))
        .obj(out.join("wirespan.bpf.o"))
        .clang_args(["-I", "bpf", "-Wall", "-Werror", "-Wno-unused-function", "-mcpu=v3"])
        .build_and_generate(out.join("wirespan.skel.rs"));
    if let Err(error) = built {
        eprintln!("the kernel programs did not compile: {error:#}\nclang 14 or newer and libelf are needed: `make deps` installs them");
        std::process::exit(1);
    }
}
