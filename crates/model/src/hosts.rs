//! Names for which a server on loopback answers.
//!
//! A page on the internet can make a browser resolve its own name to 127.0.0.1 (DNS rebinding) and then talk to a
//! loopback server as its own origin. The browser still sends the page's name as `Host`.

use std::net::IpAddr;
use std::sync::Arc;

/// Accepted values of the `Host` header.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    any: bool,
    names: Arc<[Box<str>]>,
}

impl Hosts {
    /// `localhost`, `*.localhost` and loopback addresses.
    pub fn loopback() -> Self {
        Hosts::default()
    }

    /// Any name: for a server behind a proxy that checks it.
    pub fn any() -> Self {
        Hosts { any: true, ..Hosts::default() }
    }

    /// Loopback, and these names or addresses (without port).
    pub fn named(names: impl IntoIterator<Item = String>) -> Self {
        Hosts { any: false, names: names.into_iter().map(|n| n.to_ascii_lowercase().into_boxed_str()).collect() }
    }

    /// A listener on a public address without named hosts gets [`Hosts::any`]: the addresses of the machine are not
    /// known here, and its data are open to the network already.
    #[must_use]
    pub fn for_public_bind(self) -> Self {
        if self.names.is_empty() {
            Hosts::any()
        } else {
            self
        }
    }

    /// Whether requests for this `Host` (with or without port) are answered.
    pub fn accepts(&self, host: &str) -> bool {
        if self.any {
            return true;
        }
        let name = without_port(host).to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let literal = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
        name == "localhost"
            || name.ends_with(".localhost")
            || literal.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
            || self.names.iter().any(|n| n.as_ref() == name || n.as_ref() == literal)
    }
}

fn without_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(colon) if !host[colon..].contains(']') => &host[..colon],
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_only() {
        let hosts = Hosts::loopback();
        for good in [
            "localhost",
            "localhost:7000",
            "LOCALHOST.",
            "a.localhost:1",
            "127.0.0.1:7000",
            "127.8.0.1",
            "[::1]:7000",
            "[::1]",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(hosts.accepts(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "evil.example:7000",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[fe80::1]:1",
            "notlocalhost",
            "]:[",
        ] {
            assert!(!hosts.accepts(bad), "{bad}");
        }
    }

    #[test]
    fn named_hosts() {
        let hosts = Hosts::named(["Traces.Example".to_owned(), "10.0.0.1".to_owned()]);
        assert!(hosts.accepts("traces.example:80") && hosts.accepts("10.0.0.1:80") && hosts.accepts("localhost"));
        assert!(!hosts.accepts("other.example"));
        assert!(!hosts.for_public_bind().accepts("other.example"));
        assert!(Hosts::loopback().for_public_bind().accepts("other.example"));
    }
}
