//! OpenSSL 1.1, which some programs still bring along.

use super::{certified, is_joined, run, script, PYTHON};
use crate::harness::{can_trace, has, root, skip};

/// The client of [`PYTHON`]'s server: one request by `SSL_write` and `SSL_read`, one by the calls that return lengths
/// through pointers.
const CLIENT: &str = r#"
import ctypes, glob, socket
folder = sys.argv[1]
one = lambda name: glob.glob(f'{folder}/psycopg2_binary.libs/{name}-*.so.1.1')[0]
ctypes.CDLL(one('libcrypto'))
lib = ctypes.CDLL(one('libssl'))
pointer, size = ctypes.c_void_p, ctypes.c_size_t
lib.OpenSSL_version_num.restype = ctypes.c_ulong
assert lib.OpenSSL_version_num() >> 20 == 0x101, hex(lib.OpenSSL_version_num())
for name in ('TLS_client_method', 'SSL_CTX_new', 'SSL_new'):
    getattr(lib, name).restype = pointer
lib.SSL_CTX_new.argtypes = lib.SSL_new.argtypes = lib.SSL_connect.argtypes = [pointer]
lib.SSL_set_fd.argtypes = [pointer, ctypes.c_int]
lib.SSL_write.argtypes = lib.SSL_read.argtypes = [pointer, ctypes.c_char_p, ctypes.c_int]
lib.SSL_write_ex.argtypes = lib.SSL_read_ex.argtypes = [pointer, ctypes.c_char_p, size, ctypes.POINTER(size)]
import time; time.sleep(0.5)
plain = socket.create_connection(server.server_address)
ssl11 = lib.SSL_new(lib.SSL_CTX_new(lib.TLS_client_method()))
lib.SSL_set_fd(ssl11, plain.fileno())
assert lib.SSL_connect(ssl11) == 1
buffer = ctypes.create_string_buffer(65536)
ask = lambda path: f'GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode()
request = ask('/plain/100')
assert lib.SSL_write(ssl11, request, len(request)) == len(request)
seen = b''
while not seen.endswith(b'\r\n\r\n' + b'x' * 100):
    n = lib.SSL_read(ssl11, buffer, 65536)
    assert n > 0
    seen += buffer.raw[:n]
request, n, seen = ask('/ex/20000'), size(), b''
assert lib.SSL_write_ex(ssl11, request, len(request), ctypes.byref(n)) == 1 and n.value == len(request)
while not seen.endswith(b'\r\n\r\n' + b'x' * 20000):
    assert lib.SSL_read_ex(ssl11, buffer, 65536, ctypes.byref(n)) == 1
    seen += buffer.raw[:n.value]
plain.close()
time.sleep(0.3)
"#;

#[test]
fn openssl_1_1_is_read() {
    let test = "tls_openssl11";
    if !can_trace(test) || !has(test, &["python3", "openssl"]) {
        return;
    }
    let folder = root().join("target/servers/openssl11");
    if !folder.exists() {
        skip(test, "needs tests/apps/fetch/fetch.py openssl11");
        return;
    }
    let dir = certified();
    let server = PYTHON.split("trust = ").next().unwrap();
    let program = script(dir.path(), "old.py", &format!("{server}{CLIENT}"));
    let spans = run(dir.path(), &["python3", &program, folder.to_str().unwrap()]);
    is_joined(&spans, "GET /plain/100", "200");
    is_joined(&spans, "GET /ex/20000", "200");
}
