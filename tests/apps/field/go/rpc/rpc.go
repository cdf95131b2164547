// Package rpc is the gRPC service shop.Shop, as generated code has it, with messages that protobuf brings along.
package rpc

import (
	"context"
	"log"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"wirespan/tests/field/shop"
)

// Server is what an implementation has.
type Server interface {
	Seq(context.Context, *wrapperspb.StringValue) (*structpb.Struct, error)
}

func seq(server any, ctx context.Context, decode func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
	in := new(wrapperspb.StringValue)
	if err := decode(in); err != nil {
		return nil, err
	}
	if around == nil {
		return server.(Server).Seq(ctx, in)
	}
	info := &grpc.UnaryServerInfo{Server: server, FullMethod: "/shop.Shop/Seq"}
	return around(ctx, in, info, func(ctx context.Context, in any) (any, error) {
		return server.(Server).Seq(ctx, in.(*wrapperspb.StringValue))
	})
}

// Service describes it.
var Service = grpc.ServiceDesc{
	ServiceName: "shop.Shop",
	HandlerType: (*Server)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Seq", Handler: seq}},
}

type served struct{ *shop.Shop }

func (s served) Seq(ctx context.Context, in *wrapperspb.StringValue) (*structpb.Struct, error) {
	answer, err := s.Shop.Seq(ctx, in.GetValue())
	if err != nil {
		return nil, err
	}
	return structpb.NewStruct(map[string]any{"name": answer.Name, "stock": answer.Stock, "detail": answer.Detail})
}

// New serves a shop.
func New(s *shop.Shop) Server { return served{s} }

// Back calls the back by gRPC, on one connection. The header tells the comparison for which request a call is.
func Back() func(context.Context, string) (string, error) {
	address := strings.TrimPrefix(os.Getenv("BACK_URL"), "http://")
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	return func(ctx context.Context, id string) (string, error) {
		out := new(structpb.Struct)
		ctx = metadata.AppendToOutgoingContext(ctx, "x-item", id)
		if err := conn.Invoke(ctx, "/shop.Shop/Seq", wrapperspb.String(id), out); err != nil {
			return "", err
		}
		return out.Fields["detail"].GetStringValue(), nil
	}
}

// Call asks a service about an item. What it answers does not matter: other languages have another message for it.
type Call func(ctx context.Context, id string) error

// Seq calls the service whose address a variable names, on one connection.
func Seq(variable string) Call {
	address := strings.TrimPrefix(os.Getenv(variable), "http://")
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	return func(ctx context.Context, id string) error {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-item", id)
		return conn.Invoke(ctx, "/shop.Shop/Seq", wrapperspb.String(id), new(emptypb.Empty))
	}
}
