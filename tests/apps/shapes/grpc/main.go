// A service of a shape, in Go with gRPC; README.md of the folder above has the environment. Nothing is generated: the
// method is the path, the messages are empty.
//
// HOW says who makes the calls: `seq` the handler's goroutine, `fanout` a goroutine for each, all at once. All calls to
// a service share one connection. Users speak HTTP/1.1 to the one with ENTRY.
package main

import (
	"context"
	"log"
	"net"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	service "wirespan/tests/shapes/goservice"
)

type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (raw) Name() string { return "proto" }

var clients []*grpc.ClientConn

func ask(upstream int, path string) (int, error) {
	var question, answer []byte
	return 200, clients[upstream].Invoke(context.Background(), path, &question, &answer)
}

func handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var question, answer []byte
	if err := stream.RecvMsg(&question); err != nil {
		return err
	}
	if service.Work(method) != 200 {
		return status.Error(codes.Unavailable, "a call failed")
	}
	return stream.SendMsg(&answer)
}

func serveUsers(w http.ResponseWriter, r *http.Request) {
	status := service.Work(r.URL.Path)
	w.Header().Set("Content-Length", "2")
	w.WriteHeader(status)
	_, _ = w.Write([]byte("ok"))
}

func main() {
	encoding.RegisterCodec(raw{})
	for _, each := range service.Upstreams {
		client, err := grpc.NewClient(each, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			log.Fatal(err)
		}
		clients = append(clients, client)
	}
	service.Start(ask)
	if service.Entry {
		log.Fatal(http.ListenAndServe(service.Listen, http.HandlerFunc(serveUsers)))
	}
	listener, err := net.Listen("tcp", service.Listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(grpc.NewServer(grpc.UnknownServiceHandler(handle)).Serve(listener))
}
