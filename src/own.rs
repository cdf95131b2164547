//! What this process says of itself to profilers of the machine.

/// Publishes the name, the version and an id of this process ([`wirespan_capture::publish`]).
pub(crate) fn publish() {
    let declared = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty());
    let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let attributes = [
        ("service.name", declared.as_deref().unwrap_or("wirespan")),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", id.trim()),
    ];
    if let Err(error) = wirespan_capture::publish(&attributes) {
        tracing::debug!(%error, "profilers are not told what this process is");
    }
}
