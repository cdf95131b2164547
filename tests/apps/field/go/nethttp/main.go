// The standard library alone: net/http and database/sql with pgx's driver; go-redis.
package main

import (
	"encoding/json"
	"net/http"

	"wirespan/tests/field/shop"
)

func say(w http.ResponseWriter, answer shop.Answer, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func main() {
	s := shop.New(shop.GoRedis(), shop.SQL("pgx"), shop.Client())
	mux := http.NewServeMux()
	route := func(path string, handle shop.Handle) {
		mux.HandleFunc("GET "+path+"/{id}", func(w http.ResponseWriter, r *http.Request) {
			answer, err := handle(r.Context(), r.PathValue("id"))
			say(w, answer, err)
		})
	}
	s.Routes(route)
	mux.HandleFunc("GET /later/{id}", func(w http.ResponseWriter, r *http.Request) {
		say(w, s.Later(r.PathValue("id")), nil)
	})
	mux.HandleFunc("GET /stream/{id}", func(w http.ResponseWriter, r *http.Request) {
		_ = s.Stream(r.Context(), r.PathValue("id"), shop.Saying(w))
	})
	shop.Serve(mux)
}
