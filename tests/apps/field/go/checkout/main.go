// Checkout of the astronomy shop: grpc-go, which asks cart and catalogue, has the order shipped, paid and mailed by
// other services, and tells Kafka of it with kafka-go.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"wirespan/tests/field/rpc"
	"wirespan/tests/field/shop"
)

type checkout struct {
	cart, catalog, payment rpc.Call
	fetch                  func(context.Context, string) (string, error)
	orders                 *kafka.Writer
}

func (c checkout) Seq(ctx context.Context, in *wrapperspb.StringValue) (*structpb.Struct, error) {
	id := in.GetValue()
	group, both := errgroup.WithContext(ctx)
	group.Go(func() error { return c.cart(both, id) })
	group.Go(func() error { return c.catalog(both, id) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	quote, err := c.fetch(ctx, os.Getenv("SHIPPING_URL")+"/nest/"+id)
	if err != nil {
		return nil, err
	}
	if err := c.payment(ctx, id); err != nil {
		return nil, err
	}
	if _, err := c.fetch(ctx, os.Getenv("EMAIL_URL")+"/seq/"+id); err != nil {
		return nil, err
	}
	order, err := json.Marshal(shop.Message{Item: id})
	if err != nil {
		return nil, err
	}
	told := kafka.Message{Topic: "ship", Key: []byte(id), Value: order}
	if err := c.orders.WriteMessages(ctx, told); err != nil {
		return nil, err
	}
	return structpb.NewStruct(map[string]any{"id": id, "quote": quote})
}

func main() {
	listener, err := net.Listen("tcp", shop.Address())
	if err != nil {
		log.Fatal(err)
	}
	orders := &kafka.Writer{
		Addr: kafka.TCP(os.Getenv("KAFKA_URL")), Balancer: &kafka.Hash{}, BatchTimeout: 5 * time.Millisecond,
	}
	server := grpc.NewServer()
	server.RegisterService(&rpc.Service, checkout{
		cart: rpc.Seq("CART_URL"), catalog: rpc.Seq("CATALOG_URL"), payment: rpc.Seq("PAYMENT_URL"),
		fetch: shop.Client(), orders: orders,
	})
	log.Fatal(server.Serve(listener))
}
