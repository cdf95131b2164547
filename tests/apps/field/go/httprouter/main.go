// httprouter, with sqlx on pgx, redigo and net/http's client.
package main

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/julienschmidt/httprouter"

	"wirespan/tests/field/shop"
)

func main() {
	s := shop.New(shop.Redigo(), shop.Sqlx(), shop.Client())
	batch := s.NewBatch(4)
	r := httprouter.New()
	route := func(path string, handle shop.Handle) {
		r.GET(path+"/:id", func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
			answer, err := handle(r.Context(), params.ByName("id"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	s.Routes(route)
	route("/batch", func(ctx context.Context, id string) (shop.Answer, error) { return s.Batch(ctx, batch, id) })
	route("/retry", s.Retry)
	route("/later", func(_ context.Context, id string) (shop.Answer, error) { return s.Later(id), nil })
	r.GET("/stream/:id", func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		_ = s.Stream(r.Context(), params.ByName("id"), shop.Saying(w))
	})
	shop.Serve(r)
}
