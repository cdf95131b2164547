// A service of a shape, in Go with net/http; README.md of the folder above has the environment.
//
// HOW says who makes the calls: `seq` the handler's goroutine, `fanout` a goroutine for each, all at once, `channel`
// one of WORKERS goroutines that take calls from a channel, `h2` and `h2-fanout` as the first two, over HTTP/2 without
// TLS: all calls to a service share one connection; `h2tls` as `h2`, with TLS; `tls` as `seq`, with TLS over HTTP/1.1
// and kept connections.
package main

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	service "wirespan/tests/shapes/goservice"
)

const afterAnswer = 300 * time.Microsecond

var (
	scheme = "http://"
	client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}}
)

func ask(upstream int, path string) (int, error) {
	answer, err := client.Get(scheme + service.Upstreams[upstream] + path)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return answer.StatusCode, nil
}

func serve(w http.ResponseWriter, r *http.Request) {
	status := service.Work(r.URL.Path)
	w.Header().Set("Content-Length", "2")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "ok")
	if service.How == "tls" {
		// The handler still works when its answer is out, as one that writes a log does. The next request then
		// arrives at net/http's background read.
		_ = http.NewResponseController(w).Flush()
		time.Sleep(afterAnswer)
	}
}

func main() {
	service.Start(ask)
	server := &http.Server{Addr: service.Listen, Handler: http.HandlerFunc(serve)}
	if service.How == "h2tls" || service.How == "tls" {
		scheme = "https://"
		both := service.How == "h2tls"
		client.Transport = &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: both,
			MaxIdleConnsPerHost: 512, DisableCompression: true,
		}
		if !both {
			// It offers HTTP/1.1 alone.
			server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
		}
		if !service.Entry {
			log.Fatal(server.ListenAndServeTLS(os.Getenv("TLS_CERT"), os.Getenv("TLS_KEY")))
		}
	} else if strings.HasPrefix(service.How, "h2") {
		overHTTP2(server)
	}
	log.Fatal(server.ListenAndServe())
}
