//! Finds the built UI, or writes a page that says how to build it.
//!
//! The folder that is embedded is passed to the crate as `WIRESPAN_UI_DIR`.
use std::path::Path;
use std::{env, fs, io};

const FALLBACK: &str = "<!doctype html>
<html lang=\"en\"><meta charset=\"utf-8\"><title>wirespan: no UI in this binary</title>
<link rel=\"stylesheet\" href=\"/fallback.css\">
<main>
<h1>This binary was built without its UI</h1>
<p>Build it and then the binary again, in the folder of the source:</p>
<pre>make ui
cargo build --release</pre>
<p>The API is here all the same: <a href=\"/api/v1/openapi.json\">its description</a>,
<a href=\"/api/v1/traces\">traces</a>, <a href=\"/api/v1/status\">status</a>.</p>
</main></html>
";
const FALLBACK_CSS: &str = ":root{color-scheme:light dark}
body{font:1rem/1.5 system-ui,sans-serif;display:grid;place-content:center;min-height:90vh;margin:0;padding:1rem}
pre{padding:.75rem 1rem;border:1px solid;border-radius:.25rem}
";

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("../..");
    let dist = root.join("ui/dist");
    // Cargo would rerun this script on every build while a watched path is missing.
    if root.join("ui").is_dir() && !dist.is_dir() {
        let _ = fs::create_dir(&dist);
    }
    println!("cargo:rerun-if-changed={}", dist.display());
    println!("cargo:rerun-if-changed=build.rs");
    let folder = if dist.join("index.html").is_file() {
        dist.canonicalize()?
    } else {
        let folder = Path::new(&env::var("OUT_DIR").map_err(io::Error::other)?).join("ui-fallback");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("index.html"), FALLBACK)?;
        fs::write(folder.join("fallback.css"), FALLBACK_CSS)?;
        folder
    };
    println!("cargo:rustc-env=WIRESPAN_UI_DIR={}", folder.display());
    Ok(())
}
