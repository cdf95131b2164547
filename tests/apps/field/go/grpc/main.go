// A gRPC server, with a pool of pgx and go-redis.
package main

import (
	"log"
	"net"

	"google.golang.org/grpc"

	"wirespan/tests/field/rpc"
	"wirespan/tests/field/shop"
)

func main() {
	listener, err := net.Listen("tcp", shop.Address())
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	server.RegisterService(&rpc.Service, rpc.New(shop.New(shop.GoRedis(), shop.Pgx(), shop.Client())))
	log.Fatal(server.Serve(listener))
}
