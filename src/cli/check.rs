//! `wirespan check`: what this kernel allows, feature by feature.

use super::Format;
use crate::config::{capture_options, Config};
use anyhow::Result;
use clap::Args;
use std::process::ExitCode;
use wirespan_capture::{privilege, Capture, CaptureError, Targets};

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// Form of the answer
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn check(args: CheckArgs, config: &Config) -> Result<ExitCode> {
    // Loads and attaches everything, with no target: nothing is traced.
    // Context injection is tried on sockets of our own only.
    let options = wirespan_capture::Options {
        propagate: wirespan_capture::Propagate::Auto,
        propagate_options: true,
        programs_from_start: true,
        ..capture_options(config)?
    };
    let capture = match Capture::open(&options, &Targets::default()) {
        Err(CaptureError::Privilege) => return Ok(without_privileges(args.format)),
        capture => capture?,
    };
    let uname = rustix::system::uname();
    let kernel = uname.release().to_string_lossy();
    let machine = uname.machine().to_string_lossy();
    match args.format {
        Format::Json => {
            let document = serde_json::json!({
                "wirespan.version": env!("CARGO_PKG_VERSION"),
                "os.kernel.release": kernel,
                "host.arch": machine,
                "messages.rung": capture.rung().as_str(),
                "features": capture.features(),
            });
            println!("{}", serde_json::to_string_pretty(&document)?);
        }
        Format::Text => {
            println!("Linux {kernel} {machine}: messages by {}\n", capture.rung().as_str());
            let width = capture.features().iter().map(|f| f.feature.len()).max().unwrap_or(0);
            for f in capture.features() {
                let mark = if f.active { "yes" } else { "NO " };
                println!("  {mark}  {:width$}  {}", f.feature, f.rung);
                if !f.costs.is_empty() {
                    println!("       {:width$}  costs: {}", "", f.costs);
                }
                if !f.lost.is_empty() {
                    println!("       {:width$}  lost: {}", "", f.lost);
                    println!("       {:width$}  {}", "", f.remedy);
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The answer to a user who may not trace: each capability that is missing, and what it costs.
fn without_privileges(format: Format) -> ExitCode {
    let missing = privilege::missing();
    let error = CaptureError::Privilege.to_string();
    match format {
        Format::Json => {
            let rows = missing.iter().map(
                |p| serde_json::json!({"capability": p.name, "used": p.used, "lost": p.lost, "required": p.required}),
            );
            let document = serde_json::json!({
                "wirespan.version": env!("CARGO_PKG_VERSION"),
                "error": error,
                "missing": rows.collect::<Vec<_>>(),
            });
            println!("{document:#}");
        }
        Format::Text => {
            println!("{error}\n");
            let width = missing.iter().map(|p| p.name.len()).max().unwrap_or(0);
            for p in missing {
                println!("  NO   {:width$}  {}", p.name, p.used);
                println!("       {:width$}  lost: {}", "", p.lost);
            }
        }
    }
    ExitCode::FAILURE
}
