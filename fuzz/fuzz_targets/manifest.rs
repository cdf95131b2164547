//! The store's manifest: any file of this name, and a store that is opened with it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use wirespan_store::{Embedded, Options, Store as _};

fuzz_target!(|data: &[u8]| {
    let dir = Path::new("/dev/shm").join(format!("wirespan-fuzz-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir(&dir).expect("/dev/shm can be written");
    std::fs::write(dir.join("manifest.json"), data).expect("/dev/shm has room");
    if let Ok(store) = Embedded::open(&dir, Options::default()) {
        let _ = store.status();
    }
    wirespan_fuzz::tell_heap();
});
