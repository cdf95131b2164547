package rpc

import (
	"context"
	"net/http"
	"os"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"wirespan/tests/field/shop"
)

const procedure = "/shop.Shop/Seq"

// ConnectHandler serves a shop by Connect, and returns the path as generated code does.
func ConnectHandler(s *shop.Shop) (string, http.Handler) {
	unary := func(
		ctx context.Context, in *connect.Request[wrapperspb.StringValue],
	) (*connect.Response[structpb.Struct], error) {
		answer, err := served{s}.Seq(ctx, in.Msg)
		if err != nil {
			return nil, connect.NewError(connect.CodeUnavailable, err)
		}
		return connect.NewResponse(answer), nil
	}
	return procedure, connect.NewUnaryHandler(procedure, unary)
}

// ConnectBack calls the back by Connect's own protocol, which is HTTP/1.1 without TLS.
func ConnectBack() func(context.Context, string) (string, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100
	client := connect.NewClient[wrapperspb.StringValue, structpb.Struct](
		&http.Client{Transport: transport}, os.Getenv("BACK_URL")+procedure,
	)
	return func(ctx context.Context, id string) (string, error) {
		request := connect.NewRequest(wrapperspb.String(id))
		request.Header().Set("X-Item", id)
		answer, err := client.CallUnary(ctx, request)
		if err != nil {
			return "", err
		}
		return answer.Msg.GetFields()["detail"].GetStringValue(), nil
	}
}
