//! Go's HTTP and gRPC libraries: where a request passes from one goroutine to another without a channel operation that
//! the runtime shows.
//!
//! These methods keep their names from version to version, although their types are not exported.
//! `bpf/runtime/go/http.h` checks what it reads of their structures. A program without these methods is not slowed
//! down.

use crate::wire::contract::{
    GO_CONN_WRITE, GO_DELIVER, GO_HANDLER, GO_HEADERS, GO_ROUND_TRIP, GO_RPC, GO_RPC_HEADERS, GO_RPC_STREAM,
};

/// Functions that are probed at their entry, with their cookies.
pub(super) const FUNCTIONS: [(&str, u32); 10] = [
    ("net/http.(*http2serverConn).runHandler", GO_HANDLER),
    ("golang.org/x/net/http2.(*serverConn).runHandler", GO_HANDLER),
    ("net/http/internal/http2.(*serverConn).runHandler", GO_HANDLER),
    ("net/http.(*persistConn).roundTrip", GO_ROUND_TRIP),
    ("net/http.(*wantConn).tryDeliver", GO_DELIVER),
    ("net/http.persistConnWriter.Write", GO_CONN_WRITE),
    ("google.golang.org/grpc/internal/transport.(*http2Server).operateHeaders", GO_HEADERS),
    ("google.golang.org/grpc/internal/transport.(*controlBuffer).executeAndPut", GO_RPC),
    ("google.golang.org/grpc/internal/transport.(*loopyWriter).originateStream", GO_RPC_STREAM),
    ("google.golang.org/grpc/internal/transport.(*loopyWriter).clientHeaderHandler", GO_RPC_HEADERS),
];
