//! wirespan: zero-code distributed tracing. Parses the command line and dispatches; one file per subcommand in `cli/`.
#![forbid(unsafe_code)]

mod agent;
mod cli;
mod config;
mod counters;
mod flows;
mod map_file;
mod outputs;
mod protocols;
mod server;
mod span_metrics;

/// Spans are made by one thread and freed by another, which is where glibc's allocator is slowest (see docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use clap::Parser as _;
use std::process::ExitCode;

static HUGE_PAGES_WERE_DISABLED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();

/// They would double the memory of the agent, for nothing that could be measured.
fn do_without_huge_pages() {
    // What comes through the gate becomes somebody else's program.
    if std::env::args_os().nth(1).is_some_and(|first| first == "__gate") {
        return;
    }
    let before = rustix::thread::transparent_huge_pages_are_disabled().unwrap_or(false);
    let _ = HUGE_PAGES_WERE_DISABLED.set(before);
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// As it was when we were started.
fn huge_pages_were_disabled() -> bool {
    HUGE_PAGES_WERE_DISABLED.get().copied().unwrap_or(false)
}

fn main() -> ExitCode {
    do_without_huge_pages();
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // Help and version are not mistakes.
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("WIRESPAN_LOG").unwrap_or_else(|_| "warn,libbpf=off".into()),
        )
        .with_writer(std::io::stderr)
        .with_target(false)
        .init();
    match cli.dispatch() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("wirespan: {error:#}");
            ExitCode::FAILURE
        }
    }
}
