// Chi with its usual middleware, a pool of pgx, and redigo.
package main

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"wirespan/tests/field/shop"
)

func main() {
	s := shop.New(shop.Redigo(), shop.Pgx(), shop.Client())
	r := chi.NewRouter()
	r.Use(middleware.RequestID, middleware.Recoverer, middleware.Timeout(20*time.Second))
	route := func(path string, handle shop.Handle) {
		r.Get(path+"/{id}", func(w http.ResponseWriter, r *http.Request) {
			answer, err := handle(r.Context(), chi.URLParam(r, "id"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	s.Routes(route)
	r.Get("/later/{id}", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(s.Later(chi.URLParam(r, "id")))
	})
	r.Get("/stream/{id}", func(w http.ResponseWriter, r *http.Request) {
		_ = s.Stream(r.Context(), chi.URLParam(r, "id"), shop.Saying(w))
	})
	shop.Serve(r)
}
