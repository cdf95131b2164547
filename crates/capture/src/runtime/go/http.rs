//! Go's HTTP and gRPC libraries: where a request passes from one goroutine to another without a channel operation that
//! the runtime shows.
//!
//! These methods keep their names from version to version, although their types are not exported.
//! `bpf/runtime/go/http.h` checks what it reads of their structures. A program without these methods is not slowed
//! down.

/// Cookies, as in `bpf/runtime/go/http.h`.
const HANDLER: u64 = 1;
const ROUND_TRIP: u64 = 2;
const CONN_WRITE: u64 = 3;
const HEADERS: u64 = 4;
const DELIVER: u64 = 5;
const RPC: u64 = 6;
const RPC_STREAM: u64 = 7;
const RPC_HEADERS: u64 = 8;

/// Functions that are probed at their entry, with their cookies.
pub(super) const FUNCTIONS: [(&str, u64); 10] = [
    ("net/http.(*http2serverConn).runHandler", HANDLER),
    ("golang.org/x/net/http2.(*serverConn).runHandler", HANDLER),
    ("net/http/internal/http2.(*serverConn).runHandler", HANDLER),
    ("net/http.(*persistConn).roundTrip", ROUND_TRIP),
    ("net/http.(*wantConn).tryDeliver", DELIVER),
    ("net/http.persistConnWriter.Write", CONN_WRITE),
    ("google.golang.org/grpc/internal/transport.(*http2Server).operateHeaders", HEADERS),
    ("google.golang.org/grpc/internal/transport.(*controlBuffer).executeAndPut", RPC),
    ("google.golang.org/grpc/internal/transport.(*loopyWriter).originateStream", RPC_STREAM),
    ("google.golang.org/grpc/internal/transport.(*loopyWriter).clientHeaderHandler", RPC_HEADERS),
];
