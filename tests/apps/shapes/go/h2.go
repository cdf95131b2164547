//go:build go1.24

package main

import "net/http"

// overHTTP2 makes client and server speak HTTP/2 without TLS; the server still understands HTTP/1.1.
func overHTTP2(server *http.Server) {
	only, both := new(http.Protocols), new(http.Protocols)
	only.SetUnencryptedHTTP2(true)
	both.SetUnencryptedHTTP2(true)
	both.SetHTTP1(true)
	client.Transport = &http.Transport{Protocols: only, DisableCompression: true}
	server.Protocols = both
}
