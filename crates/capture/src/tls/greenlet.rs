//! Python's greenlets (the module `greenlet`, on which gevent and eventlet stand): where one is made, and where a
//! switch to one ends.
//!
//! Both are methods of C++ classes, which the module's builds export, as nobody told the compiler not to.

use super::elf::Image;
use super::library::Probe;
use super::points::Function;

/// Exported by that module, and by no other file.
const MODULE: &str = "PyInit__greenlet";
/// Cookies, as in `bpf/runtime/python/greenlet.h`, and how the mangled names begin: the type of an argument has changed.
const METHODS: [(&str, u64); 2] =
    [("_ZN8greenlet12UserGreenletC1EP", 1), ("_ZN8greenlet8Greenlet21g_switchstack_successEv", 2)];
/// So much of each function is looked at.
const LOOKED_AT: u64 = 64;

/// Where to probe; nothing unless both are found.
pub(crate) fn plan(image: &Image<'_>) -> Vec<Probe> {
    // Which registers have the arguments is known for x86-64 only.
    if !image.is_x86_64() || !image.functions(&[MODULE]).contains_key(MODULE) {
        return Vec::new();
    }
    let exported = image.exported(|name| METHODS.iter().find(|m| name.starts_with(m.0.as_bytes())).map(|m| m.1));
    let probe = |cookie| {
        let (place, _) = exported.iter().find(|(_, c)| *c == cookie)?;
        let function = Function::new(image.bytes(place.address, LOOKED_AT)?, place.address);
        Some(Probe { offset: image.offset(function.points(false).enter)?, cookie })
    };
    METHODS.iter().map(|(_, cookie)| probe(*cookie)).collect::<Option<_>>().unwrap_or_default()
}
