//! wirespan: zero-code distributed tracing. Parses the command line and dispatches; one file per subcommand in `cli/`.
#![deny(unsafe_code)]

mod agent;
mod capture_thread;
mod claims;
mod cli;
mod clock;
mod conditions;
mod config;
mod counters;
mod descriptors;
mod failure;
mod flows;
mod lockdown;
mod memory;
mod otlp_receiver;
mod own;
mod packet;
mod pipeline;
mod protocols;
mod server;
mod session;
mod slow;
mod stop_signal;
mod syscalls;
mod view;

/// Spans are made by one thread and freed by another, which is where glibc's allocator is slowest (see
/// docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
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
            // An error may repeat what a server said.
            eprintln!("wirespan: {}", wirespan_model::plain::lines(&failure::words(&error)));
            ExitCode::FAILURE
        }
    }
}
