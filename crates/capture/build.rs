//! Compiles the kernel programs with clang, and generates their loader and the Rust side of their contract
//! (`bpf/wire.h`, `bpf/runtime/*/contract.h`).

#[path = "build/contract.rs"]
mod contract;

use std::path::{Path, PathBuf};

const FLAGS: [&str; 6] = ["-I", "bpf", "-Wall", "-Werror", "-Wno-unused-function", "-mcpu=v3"];

/// What is loaded together, and its name. Packets are loaded only while a packet program runs.
const OBJECTS: [(&str, &str); 2] = [("bpf/wirespan.bpf.c", "wirespan"), ("bpf/packet/packet.bpf.c", "packet")];

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=agent");
    let flags = flags();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for (source, name) in OBJECTS {
        let built = libbpf_cargo::SkeletonBuilder::new()
            .source(source)
            .obj(out.join(format!("{name}.bpf.o")))
            .clang_args(&flags)
            .build_and_generate(out.join(format!("{name}.skel.rs")));
        if let Err(error) = built {
            eprintln!("the kernel programs of {source} did not compile: {error:#}");
            eprintln!("clang 14 or newer and libelf are needed: `make deps` installs them");
            std::process::exit(1);
        }
    }
    if let Err(error) = build_java_agent(&out) {
        eprintln!("the agent for Java machines (agent/java) was not built: {error}");
        eprintln!("clang and a linker are needed: `make deps` installs them");
        std::process::exit(1);
    }
    if let Err(error) = generate_contract(&out, &flags) {
        eprintln!("the contract with the kernel programs (bpf/wire.h) was not understood: {error}");
        std::process::exit(1);
    }
}

/// The library that `--attach-java` loads into Java machines. It uses no other library, not even that of C.
const AGENT_FLAGS: [&str; 13] = [
    "-std=gnu11",
    "-Os",
    "-fPIC",
    "-shared",
    "-nostdlib",
    "-ffreestanding",
    "-fno-stack-protector",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,-z,noexecstack",
    "-s",
];

fn build_java_agent(out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let compiler = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let target = std::env::var("TARGET")?;
    let built = std::process::Command::new(&compiler)
        .args(AGENT_FLAGS)
        .arg(format!("--target={target}"))
        .arg("-o")
        .args([&out.join("java_agent.so"), Path::new("agent/java/agent.c")])
        .status()
        .map_err(|error| format!("{}: {error}", compiler.display()))?;
    built.success().then_some(()).ok_or_else(|| built.to_string().into())
}

/// With the defines of a debug build, if this is one (docs/preemption.md).
fn flags() -> Vec<&'static str> {
    println!("cargo:rerun-if-env-changed=WIRESPAN_UNGUARDED_RECORDS");
    let mut flags = FLAGS.to_vec();
    let unguarded = std::env::var_os("WIRESPAN_UNGUARDED_RECORDS").is_some();
    if std::env::var_os("CARGO_FEATURE_CHECKED_RECORDS").is_some() {
        flags.push("-DWS_CHECKED_RECORDS");
        if unguarded {
            println!("cargo:warning=records are left unguarded: this build is the control of a test");
            flags.push("-DWS_UNGUARDED_RECORDS");
        }
    } else if unguarded {
        eprintln!("WIRESPAN_UNGUARDED_RECORDS needs the feature checked-records");
        std::process::exit(1);
    }
    flags
}

fn generate_contract(out: &Path, flags: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let headers = contract::headers(Path::new("bpf"))?;
    let (source, object) = (out.join("contract.bpf.c"), out.join("contract.bpf.o"));
    std::fs::write(&source, contract::source(&headers))?;
    libbpf_cargo::SkeletonBuilder::new().source(source).obj(&object).clang_args(flags).build()?;
    std::fs::write(out.join("contract.rs"), contract::types(&headers, &object)?)?;
    Ok(())
}
