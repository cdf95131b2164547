// gorilla/mux, with GORM on pgx, go-redis, resty, singleflight and workers behind a channel with room.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/go-resty/resty/v2"
	"github.com/gorilla/mux"
	"golang.org/x/sync/singleflight"

	"wirespan/tests/field/shop"
)

var client = resty.New()

func fetch(ctx context.Context, url string) (string, error) {
	response, err := client.R().SetContext(ctx).Get(url)
	if err == nil && response.IsError() {
		err = fmt.Errorf("%s: %s", url, response.Status())
	}
	if err != nil {
		return "", err
	}
	return response.String(), nil
}

func main() {
	s := shop.New(shop.GoRedis(), shop.Gorm(), fetch)
	batch := s.NewBatch(8)
	var flights singleflight.Group
	r := mux.NewRouter()
	route := func(path string, handle shop.Handle) {
		r.HandleFunc(path+"/{id}", func(w http.ResponseWriter, r *http.Request) {
			answer, err := handle(r.Context(), mux.Vars(r)["id"])
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	s.Routes(route)
	route("/batch", func(ctx context.Context, id string) (shop.Answer, error) { return s.Batch(ctx, batch, id) })
	route("/retry", s.Retry)
	route("/later", func(_ context.Context, id string) (shop.Answer, error) { return s.Later(id), nil })
	// One flight for each id: singleflight makes the call in a goroutine of its own.
	route("/flight", func(ctx context.Context, id string) (shop.Answer, error) {
		flight := flights.DoChan(id, func() (any, error) { return s.Seq(ctx, id) })
		done := <-flight
		answer, _ := done.Val.(shop.Answer)
		return answer, done.Err
	})
	r.HandleFunc("/stream/{id}", func(w http.ResponseWriter, r *http.Request) {
		_ = s.Stream(r.Context(), mux.Vars(r)["id"], shop.Saying(w))
	})
	shop.Serve(r)
}
