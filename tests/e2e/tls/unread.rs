//! TLS that wirespan cannot read is reported and counted. Its handshakes are shown, and nothing else of it.

use super::{certified, done, java, rustls, script, told};
use crate::harness::{can_trace, has, Span};
use std::path::Path;
use std::process::Command;

/// Both ends of this many handshakes, and no other span.
fn shows_handshakes_only(spans: &[Span], at_least: usize) {
    for side in ["client-process", "server-process"] {
        let seen = |s: &&Span| s.attr("wirespan.tap_side") == side && s.attr("tls.protocol.version") == "1.3";
        let all: Vec<_> = spans.iter().map(|s| (&s.name, s.attr("wirespan.tap_side"))).collect();
        assert!(spans.iter().filter(seen).count() >= at_least, "{side}: {all:?}");
    }
    for span in spans {
        assert!(span.attr("url.path").is_empty() && !format!("{span:?}").contains("canary"), "{span:?}");
    }
}

const JAVA: &str = r#"
import com.sun.net.httpserver.*;
import java.io.*;
import java.net.*;
import javax.net.ssl.*;

public class Pair {
    public static void main(String[] ignored) throws Exception {
        SSLContext context = Keys.context();
        HttpsServer server = HttpsServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.setHttpsConfigurator(new HttpsConfigurator(context));
        server.createContext("/", call -> {
            call.sendResponseHeaders(200, 6);
            try (OutputStream out = call.getResponseBody()) { out.write("canary".getBytes()); }
        });
        server.start();
        for (int i = 0; i < 3; i++) {
            URL url = new URL("https://127.0.0.1:" + server.getAddress().getPort() + "/canary/" + i);
            HttpsURLConnection call = (HttpsURLConnection) url.openConnection();
            call.setSSLSocketFactory(context.getSocketFactory());
            if (call.getResponseCode() != 200) throw new IOException("status");
            call.getInputStream().readAllBytes();
            call.disconnect();
        }
        server.stop(0);
    }
}
"#;

#[test]
fn tls_of_java_is_counted_as_unread() {
    let test = "tls_java";
    if !can_trace(test) || !has(test, &["java", "javac", "openssl"]) {
        return;
    }
    let dir = certified();
    let export = ["pkcs12", "-export", "-inkey", "key.pem", "-in", "cert.pem", "-passout", "pass:secret"];
    done(Command::new("openssl").args(export).args(["-out", "keys.p12"]).current_dir(dir.path()));
    let source = script(dir.path(), "Pair.java", JAVA);
    java::compile(dir.path(), Path::new(&source));
    let java = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", ".", "Pair"];
    let (spans, log) = told(dir.path(), &java);
    shows_handshakes_only(&spans, 3);
    assert!(log.contains("tls_unread_java"), "{log}");
}

#[test]
fn a_program_without_symbols_is_counted_as_unread() {
    let test = "tls_stripped";
    if !can_trace(test) || !has(test, &["openssl", "strip"]) {
        return;
    }
    let Some(program) = rustls::program(test) else { return };
    let dir = rustls::certified_leaf();
    let stripped = dir.path().join("stripped");
    done(Command::new("strip").arg("-o").arg(&stripped).arg(&program));
    let (spans, log) = told(dir.path(), &[path(&stripped), "cert.pem", "key.pem"]);
    shows_handshakes_only(&spans, 1);
    assert!(log.contains("tls_unread_rustls"), "{log}");
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
