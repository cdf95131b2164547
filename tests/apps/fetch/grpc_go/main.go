// A gRPC server whose messages are bytes: `/shop.Orders/METHOD` does what its name says. Nothing is generated.
package main

import (
	"io"
	"log"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

type raw struct{}

func (raw) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = append([]byte(nil), data...); return nil }
func (raw) Name() string                       { return "proto" }

// Answers with what came.
func echo(stream grpc.ServerStream, message []byte) error {
	return stream.SendMsg(&message)
}

func handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var first []byte
	if err := stream.RecvMsg(&first); err != nil {
		return err
	}
	switch method {
	case "/shop.Orders/Echo":
		return echo(stream, first)
	case "/shop.Orders/Missing":
		return status.Errorf(codes.NotFound, "no order '%s'", first)
	case "/shop.Orders/Broken":
		return status.Error(codes.Internal, "broken")
	case "/shop.Orders/Slow":
		time.Sleep(2 * time.Second)
		return echo(stream, first)
	case "/shop.Orders/List":
		for i := 0; i < 5; i++ {
			if err := echo(stream, first); err != nil {
				return err
			}
		}
		return nil
	case "/shop.Orders/Upload":
		for {
			var more []byte
			if err := stream.RecvMsg(&more); err == io.EOF {
				return echo(stream, first)
			} else if err != nil {
				return err
			}
		}
	case "/shop.Orders/Chat":
		for message := first; ; {
			if err := echo(stream, message); err != nil {
				return err
			}
			if err := stream.RecvMsg(&message); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	return status.Errorf(codes.Unimplemented, "no method")
}

func main() {
	encoding.RegisterCodec(raw{})
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(grpc.NewServer(grpc.UnknownServiceHandler(handle)).Serve(listener))
}
