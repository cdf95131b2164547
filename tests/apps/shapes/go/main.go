// A service of a shape, in Go with net/http; README.md of the folder above has the environment.
//
// HOW says who makes the calls: `seq` the handler's goroutine, `fanout` a goroutine for each, all at once, `channel` one
// of WORKERS goroutines that take calls from a channel, `h2` and `h2-fanout` as the first two, over HTTP/2 without TLS:
// all calls to a service share one connection; `h2tls` as `h2`, with TLS.
package main

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

type record struct {
	Service string  `json:"service"`
	Kind    string  `json:"kind"`
	Target  string  `json:"target"`
	In      *string `json:"in,omitempty"`
	Port    int     `json:"port"`
	Start   int64   `json:"start"`
	End     int64   `json:"end"`
	Status  int     `json:"status"`
}

type todo struct {
	upstream, load int
	in             string
	done           chan bool
}

var (
	name      = os.Getenv("SERVICE")
	how       = os.Getenv("HOW")
	listen    = os.Getenv("LISTEN")
	scheme    = "http://"
	slower    = 1.0
	upstreams []string
	truth     *os.File
	client    = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}}
	queue     = make(chan todo)
)

func port(address string) int {
	_, text, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(text)
	return n
}

// note appends one line in one write: nothing is lost when the process is ended.
func note(r record) {
	r.Service, r.End = name, time.Now().UnixNano()
	line, _ := json.Marshal(r)
	if _, err := truth.Write(append(line, '\n')); err != nil {
		log.Fatal(err)
	}
}

// calls says what a request makes its service call, by its path alone.
func calls(path string) []todo {
	var all []todo
	load, _ := strconv.Atoi(strings.Split(path, "/")[2])
	for u := range upstreams {
		for i := 0; i <= load>>uint(u)&1; i++ {
			all = append(all, todo{u, (load + i + 1) % 4, path, make(chan bool, 1)})
		}
	}
	return all
}

func call(t todo) bool {
	var number [6]byte
	_, _ = rand.Read(number[:])
	path := fmt.Sprintf("/work/%d/%s", t.load, hex.EncodeToString(number[:]))
	start := time.Now().UnixNano()
	answer, err := client.Get(scheme + upstreams[t.upstream] + path)
	if err != nil {
		log.Print(err)
		return false
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	note(record{Kind: "client", Target: path, In: &t.in, Port: port(upstreams[t.upstream]), Start: start, Status: answer.StatusCode})
	return answer.StatusCode == 200
}

func worker() {
	for t := range queue {
		t.done <- call(t)
	}
}

func work(path string) bool {
	good := true
	all := calls(path)
	for _, t := range all {
		switch how {
		case "fanout", "h2-fanout":
			go func(t todo) { t.done <- call(t) }(t)
		case "channel":
			queue <- t
			good = <-t.done && good
		default:
			good = call(t) && good
		}
	}
	if strings.HasSuffix(how, "fanout") {
		for _, t := range all {
			good = <-t.done && good
		}
	}
	return good
}

func serve(w http.ResponseWriter, r *http.Request) {
	start := time.Now().UnixNano()
	status := 200
	if len(upstreams) == 0 { // answers come in another order than questions
		number, _ := strconv.ParseUint(strings.Split(r.URL.Path, "/")[3], 16, 64)
		time.Sleep(time.Duration(float64(100+number%1400) * slower * float64(time.Microsecond)))
	}
	if !work(r.URL.Path) {
		status = 502
	}
	note(record{Kind: "server", Target: r.URL.Path, Port: port(listen), Start: start, Status: status})
	w.Header().Set("Content-Length", "2")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "ok")
}

func main() {
	var err error
	path := filepath.Join(os.Getenv("GROUND_TRUTH_DIR"), name+".jsonl")
	if truth, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		log.Fatal(err)
	}
	for _, each := range strings.Split(os.Getenv("CALLS"), ",") {
		if each != "" {
			upstreams = append(upstreams, each)
		}
	}
	if factor, err := strconv.ParseFloat(os.Getenv("SLOWER"), 64); err == nil {
		slower = factor
	}
	workers, _ := strconv.Atoi(os.Getenv("WORKERS"))
	for i := 0; i < workers && how == "channel"; i++ {
		go worker()
	}
	server := &http.Server{Addr: listen, Handler: http.HandlerFunc(serve)}
	if how == "h2tls" {
		scheme = "https://"
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableCompression: true}
		if os.Getenv("ENTRY") != "1" {
			log.Fatal(server.ListenAndServeTLS(os.Getenv("TLS_CERT"), os.Getenv("TLS_KEY")))
		}
	} else if strings.HasPrefix(how, "h2") {
		overHTTP2(server)
	}
	log.Fatal(server.ListenAndServe())
}
