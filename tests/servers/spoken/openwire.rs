//! OpenWire in its loose encoding, without a cache.

use super::wires::openwire::{map, sized, text, wire};
use super::{c, s, talk, Secrets, Talk};

pub(super) fn talks(x: &mut Secrets) -> Vec<Talk> {
    vec![openwire(x)]
}

struct Writer(Vec<u8>);

impl Writer {
    fn new(id: u32, asks: bool) -> Self {
        Writer(id.to_be_bytes().to_vec()).bool(asks)
    }
    fn bool(mut self, b: bool) -> Self {
        self.0.push(u8::from(b));
        self
    }
    fn int(mut self, n: u32) -> Self {
        self.0.extend(n.to_be_bytes());
        self
    }
    fn long(mut self, n: u64) -> Self {
        self.0.extend(n.to_be_bytes());
        self
    }
    fn text(mut self, s: &str) -> Self {
        self = self.bool(!s.is_empty());
        if !s.is_empty() {
            self.0.extend(text(s));
        }
        self
    }
    fn bytes(mut self, b: &[u8]) -> Self {
        self = self.bool(!b.is_empty());
        if !b.is_empty() {
            self = self.int(b.len() as u32);
            self.0.extend(b);
        }
        self
    }
    fn object(mut self, kind: u8) -> Self {
        self = self.bool(true);
        self.0.push(kind);
        self
    }
    fn producer(self) -> Self {
        self.object(123).text("ID:x-1").long(1).long(2)
    }
    fn queue(self) -> Self {
        self.object(100).text("TEST.FOO")
    }
    /// A message with everything that may hold a secret.
    fn message(self, x: &mut Secrets, place: &str) -> Self {
        let value = text(&x.of(&format!("openwire {place} property")));
        let w = self.producer().queue().bool(false).bool(false).object(110).text("").producer().long(7).long(0);
        let w = w.bool(false).text(&x.of(&format!("openwire {place} group"))).int(0);
        let mut w = w.text("c-1").bool(true).long(0);
        w.0.push(4);
        let w = w.bool(false).long(1_700_000_000_000).text(&x.of(&format!("openwire {place} type")));
        let w = w.bytes(x.of(&format!("openwire {place} body")).as_bytes()).bytes(&map(&[("k", 9, &value)]));
        w.bool(false).bool(false).text(&x.of(&format!("openwire {place} user"))).int(0)
    }
    fn done(self, kind: u8) -> Vec<u8> {
        sized(kind, &self.0)
    }
}

fn openwire(x: &mut Secrets) -> Talk {
    let login = |id: u32, x: &mut Secrets| {
        let w = Writer::new(id, true).object(120).text("ID:x-1").text("shop");
        w.text(&x.of("openwire password")).text(&x.of("openwire user")).done(3)
    };
    let response = |to: u32| Writer::new(0, false).int(to).done(30);
    let refused = |to: u32, x: &mut Secrets| {
        let told = format!("User name [{}] or password is invalid.", x.of("openwire exception"));
        Writer::new(0, false).int(to).bool(true).text("java.lang.SecurityException").text(&told).done(31)
    };
    let dispatch = {
        let w = Writer::new(5, false).object(122).text("ID:x-1").long(1).long(1).queue();
        w.object(28).int(9).bool(false).message(x, "read").int(2).done(21)
    };
    talk(
        "openwire",
        &["ConnectionInfo", "ActiveMQTextMessage TEST.FOO"],
        vec![
            c(wire(false, false)),
            s(wire(false, false)),
            c(login(1, x)),
            s(response(1)),
            c(Writer::new(2, true).message(x, "sent").done(28)),
            s(response(2)),
            s(dispatch),
            c(login(4, x)),
            s(refused(4, x)),
        ],
    )
}
