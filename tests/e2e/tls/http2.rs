//! HTTP/2 over TLS: the same spans from OpenSSL in nginx, curl and Node, and from Go, which has implementations of its
//! own.

use super::{both, certified, go, is_joined, nginx, run, script};
use crate::harness::{can_trace, has, Span};

/// Method, status and place on the wire are known at both ends, and it was HTTP/2.
fn is_http2(spans: &[Span], name: &str, status: &str) {
    is_joined(spans, name, status);
    let (client, server) = both(spans, name);
    for span in [client, server] {
        assert_eq!(span.attr("http.response.status_code"), status, "{name}");
        assert_eq!(span.attr("network.protocol.version"), "2", "{name}");
        assert_eq!(span.attr("url.scheme"), "https", "{name}");
    }
}

#[test]
fn curl_asks_nginx_for_several_at_once() {
    let test = "tls_http2_nginx";
    if !can_trace(test) || !has(test, &["openssl", "nginx", "curl"]) {
        return;
    }
    let dir = certified();
    let (conf, port) = nginx(dir.path(), 1, "http2");
    // curl waits for its arguments, so that its library is mapped before it is used.
    let urls = |name: &str, more: &str| {
        let each = |i| format!("url = https://127.0.0.1:{port}/{name}/{i}\noutput = /dev/null\n");
        script(
            dir.path(),
            name,
            &(format!("http2\nfail\nsilent\ncacert = cert.pem\n{more}") + &(0..4).map(each).collect::<String>()),
        )
    };
    let (one, many) = (urls("row", ""), urls("at-once", "parallel\n"));
    let all = script(
        dir.path(),
        "all.sh",
        &format!(
            "nginx -c {} -p {} & N=$!\nuntil [ -s pid ]; do sleep 0.1; done; sleep 1\n\
             for urls in {one} {many}; do (sleep 1; cat $urls) | curl -K - || exit 1; done\n\
             S=$?; sleep 0.3; kill $N; wait; exit $S\n",
            conf.display(),
            dir.path().display()
        ),
    );
    let spans = run(dir.path(), &["sh", &all]);
    for i in 0..4 {
        is_http2(&spans, &format!("GET /row/{i}"), "201");
        is_http2(&spans, &format!("GET /at-once/{i}"), "201");
    }
}

/// A server and a client in Go: three requests in a row, and four at once, over one connection.
const GO: &str = r#"
package main
import ("crypto/tls"; "crypto/x509"; "fmt"; "io"; "net/http"; "net/http/httptest"; "strings"; "sync"; "time")
func main() {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("z", 20000))
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	c := &http.Client{Transport: transport}
	get := func(path string) {
		r, err := c.Get(s.URL + path)
		if err != nil { panic(err) }
		if r.ProtoMajor != 2 { panic(r.Proto) }
		io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	for i := 0; i < 3; i++ { get(fmt.Sprintf("/row/%d", i)) }
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func(i int) { defer all.Done(); get(fmt.Sprintf("/at-once/%d", i)) }(i)
	}
	all.Wait()
	time.Sleep(300 * time.Millisecond)
}
"#;

#[test]
fn go_speaks_it_with_itself() {
    let test = "tls_http2_go";
    if !can_trace(test) || !has(test, &["go"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    go::build(dir.path(), GO, "exe", "local");
    let spans = run(dir.path(), &["./pair"]);
    for i in 0..3 {
        is_http2(&spans, &format!("GET /row/{i}"), "200");
    }
    for i in 0..4 {
        is_http2(&spans, &format!("GET /at-once/{i}"), "200");
    }
}

const NODE: &str = r"
const http2 = require('http2'), fs = require('fs');
const cert = fs.readFileSync('cert.pem'), key = fs.readFileSync('key.pem');
const server = http2.createSecureServer({ key, cert });
server.on('stream', (stream, headers) => {
  stream.respond({ ':status': 200 });
  stream.end('y'.repeat(Number(headers[':path'].split('/')[2])));
});
setTimeout(() => server.listen(0, '127.0.0.1', async () => {
  const client = http2.connect('https://127.0.0.1:' + server.address().port, { ca: cert });
  const get = (path) => new Promise((done) => client.request({ ':path': path }).on('end', done).resume());
  for (const size of [10, 30000]) await get('/row/' + size);
  await Promise.all([11, 12, 30001].map((size) => get('/at-once/' + size)));
  setTimeout(() => process.exit(0), 300);
}), 2000);
";

#[test]
fn node_speaks_it_with_itself() {
    let test = "tls_http2_node";
    if !can_trace(test) || !has(test, &["node", "openssl"]) {
        return;
    }
    let dir = certified();
    let program = script(dir.path(), "pair.js", NODE);
    let spans = run(dir.path(), &["node", &program]);
    for name in ["row/10", "row/30000", "at-once/11", "at-once/12", "at-once/30001"] {
        is_http2(&spans, &format!("GET /{name}"), "200");
    }
}
