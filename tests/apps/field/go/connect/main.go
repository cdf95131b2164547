// Connect on net/http, with pgx and go-redis.
package main

import (
	"net/http"

	"wirespan/tests/field/rpc"
	"wirespan/tests/field/shop"
)

func main() {
	mux := http.NewServeMux()
	mux.Handle(rpc.ConnectHandler(shop.New(shop.GoRedis(), shop.Pgx(), shop.Client())))
	shop.Serve(mux)
}
