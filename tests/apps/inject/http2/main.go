// Servers and clients of HTTP/2 without TLS, in Go: net/http, and gRPC with nothing generated.
//
// main serve TRUTH | rpc-serve TRUTH        prints its port; writes a line of JSON for each request
// main ask ADDRESS COUNT AT_ONCE [own]      COUNT requests, AT_ONCE at a time, on one connection
// main rpc-ask ADDRESS COUNT AT_ONCE [own]  `own`: request 10 has a context of its own, twice
// main front ADDRESS                        passes each request on, over HTTP/2; prints its port
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
)

const own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

var lengths = []int{0, 100, 3000, 20000}

func init() {
	if os.Getenv("SHORT") != "" {
		lengths = []int{0, 100}
	}
}

type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (raw) Name() string { return "proto" }

var (
	truth *os.File
	lock  sync.Mutex
)

func note(target string, headers map[string][]string, body []byte) {
	contexts := []string{}
	rest := []string{}
	for name, values := range headers {
		if strings.EqualFold(name, "traceparent") {
			contexts = append(contexts, values...)
			continue
		}
		for _, value := range values {
			rest = append(rest, strings.ToLower(name)+": "+value)
		}
	}
	sort.Strings(rest)
	line, err := json.Marshal(map[string]any{"target": target, "contexts": contexts, "rest": rest,
		"body": fmt.Sprintf("%x", sha256.Sum256(body)), "length": len(body)})
	must(err)
	lock.Lock()
	defer lock.Unlock()
	_, err = truth.Write(append(line, '\n'))
	must(err)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	return listener
}

func answer(target string, body []byte) []byte {
	return bytes.Repeat([]byte(target), 1+len(body)%1000)
}

func serve() {
	take(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		note(r.URL.Path, r.Header, body)
		_, _ = w.Write(answer(r.URL.Path, body))
	})
}

// Serves HTTP/1 and HTTP/2.
func take(handle http.HandlerFunc) {
	both := new(http.Protocols)
	both.SetUnencryptedHTTP2(true)
	both.SetHTTP1(true)
	server := http.Server{Protocols: both, Handler: handle}
	must(server.Serve(listen()))
}

func rpcServe() {
	handle := func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		var body []byte
		if err := stream.RecvMsg(&body); err != nil {
			return err
		}
		came, _ := metadata.FromIncomingContext(stream.Context())
		note(method, came, body)
		all := answer(method, body)
		return stream.SendMsg(&all)
	}
	must(grpc.NewServer(grpc.UnknownServiceHandler(handle)).Serve(listen()))
}

// With OVER=http1 kept connections of HTTP/1.1, with OVER=close one for each request.
func overHTTP2() *http.Client {
	only := new(http.Protocols)
	over := os.Getenv("OVER")
	only.SetUnencryptedHTTP2(over == "")
	only.SetHTTP1(over != "")
	return &http.Client{Transport: &http.Transport{Protocols: only, DisableCompression: true,
		DisableKeepAlives: over == "close", MaxIdleConnsPerHost: 1000}}
}

func get(client *http.Client, address, target string, body []byte, context string) []byte {
	asked, err := http.NewRequest("POST", "http://"+address+target, bytes.NewReader(body))
	must(err)
	if context != "" {
		asked.Header.Set("Traceparent", context)
	}
	response, err := client.Do(asked)
	must(err)
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	must(err)
	return all
}

func askAll(count, atOnce int, owns bool, ask func(target string, body []byte, context string) []byte) {
	numbers := make(chan int)
	var all sync.WaitGroup
	begin := time.Now()
	one := func(n int) {
		context := ""
		if owns && (n == 10 || n == 11) {
			context = own
		}
		length := lengths[n%len(lengths)]
		target := fmt.Sprintf("/n/%d-%d", n, length)
		body := bytes.Repeat([]byte("b"), length)
		if got := ask(target, body, context); !bytes.Equal(got, answer(target, body)) {
			log.Fatalf("%s was answered with %d other bytes", target, len(got))
		}
	}
	one(0) // the connection is there before the others want one
	for range atOnce {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := range numbers {
				one(n)
			}
		}()
	}
	for n := 1; n < count; n++ {
		numbers <- n
	}
	close(numbers)
	all.Wait()
	seconds := time.Since(begin).Seconds()
	var used syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	cpu := float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
	fmt.Printf("{\"seconds\":%f,\"cpu\":%f}\n", seconds, cpu)
}

func main() {
	encoding.RegisterCodec(raw{})
	number := func(n int) int {
		value, err := strconv.Atoi(os.Args[n])
		must(err)
		return value
	}
	switch how := os.Args[1]; how {
	case "serve", "rpc-serve":
		var err error
		truth, err = os.OpenFile(os.Args[2], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		must(err)
		if how == "serve" {
			serve()
		}
		rpcServe()
	case "ask":
		client := overHTTP2()
		askAll(number(3), number(4), len(os.Args) > 5, func(target string, body []byte, context string) []byte {
			return get(client, os.Args[2], target, body, context)
		})
	case "rpc-ask":
		plain := grpc.WithTransportCredentials(insecure.NewCredentials())
		conn, err := grpc.NewClient("passthrough:///"+os.Args[2], plain)
		must(err)
		askAll(number(3), number(4), len(os.Args) > 5, func(target string, body []byte, parent string) []byte {
			var got []byte
			ctx := context.Background()
			if parent != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", parent)
			}
			must(conn.Invoke(ctx, target, &body, &got))
			return got
		})
	case "front":
		client := overHTTP2()
		take(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client has gone
			}
			_, _ = w.Write(get(client, os.Args[2], r.URL.Path, body, ""))
		})
	}
}
