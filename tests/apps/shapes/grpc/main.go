// A service of a shape, in Go with gRPC; README.md of the folder above has the environment. Nothing is generated: the method is
// the path, the messages are empty.
//
// HOW says who makes the calls: `seq` the handler's goroutine, `fanout` a goroutine for each, all at once. All calls to a
// service share one connection. Users speak HTTP/1.1 to the one with ENTRY.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (raw) Name() string { return "proto" }

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
}

var (
	name      = os.Getenv("SERVICE")
	how       = os.Getenv("HOW")
	listen    = os.Getenv("LISTEN")
	slower    = 1.0
	upstreams []string
	clients   []*grpc.ClientConn
	truth     *os.File
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
			all = append(all, todo{u, (load + i + 1) % 4, path})
		}
	}
	return all
}

func call(t todo) bool {
	var number [6]byte
	_, _ = rand.Read(number[:])
	path := fmt.Sprintf("/work/%d/%s", t.load, hex.EncodeToString(number[:]))
	start := time.Now().UnixNano()
	var question, answer []byte
	if err := clients[t.upstream].Invoke(context.Background(), path, &question, &answer); err != nil {
		log.Print(err)
		return false
	}
	note(record{Kind: "client", Target: path, In: &t.in, Port: port(upstreams[t.upstream]), Start: start, Status: 200})
	return true
}

// work makes the calls of a request, and says whether all are well.
func work(path string) bool {
	start := time.Now().UnixNano()
	if len(upstreams) == 0 { // answers come in another order than questions
		number, _ := strconv.ParseUint(strings.Split(path, "/")[3], 16, 64)
		time.Sleep(time.Duration(float64(100+number%1400) * slower * float64(time.Microsecond)))
	}
	all, good := calls(path), true
	if how == "fanout" {
		done := make(chan bool, len(all))
		for _, t := range all {
			go func(t todo) { done <- call(t) }(t)
		}
		for range all {
			good = <-done && good
		}
	} else {
		for _, t := range all {
			good = call(t) && good
		}
	}
	code := 200
	if !good {
		code = 502
	}
	note(record{Kind: "server", Target: path, Port: port(listen), Start: start, Status: code})
	return good
}

func handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var question, answer []byte
	if err := stream.RecvMsg(&question); err != nil {
		return err
	}
	if !work(method) {
		return status.Error(codes.Unavailable, "a call failed")
	}
	return stream.SendMsg(&answer)
}

func serveUsers(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "2")
	if !work(r.URL.Path) {
		w.WriteHeader(502)
	}
	_, _ = w.Write([]byte("ok"))
}

func main() {
	var err error
	encoding.RegisterCodec(raw{})
	path := filepath.Join(os.Getenv("GROUND_TRUTH_DIR"), name+".jsonl")
	if truth, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		log.Fatal(err)
	}
	for _, each := range strings.Split(os.Getenv("CALLS"), ",") {
		if each == "" {
			continue
		}
		client, err := grpc.NewClient(each, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			log.Fatal(err)
		}
		upstreams, clients = append(upstreams, each), append(clients, client)
	}
	if factor, err := strconv.ParseFloat(os.Getenv("SLOWER"), 64); err == nil {
		slower = factor
	}
	if os.Getenv("ENTRY") == "1" {
		log.Fatal(http.ListenAndServe(listen, http.HandlerFunc(serveUsers)))
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(grpc.NewServer(grpc.UnknownServiceHandler(handle)).Serve(listener))
}
