package shop

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

// Client fetches with net/http. With HTTP2=off it speaks HTTP/1.1 to services with TLS, otherwise what they offer.
func Client() func(context.Context, string) (string, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 100
	if os.Getenv("HTTP2") == "off" {
		none := map[string]func(string, *tls.Conn) http.RoundTripper{}
		transport = &http.Transport{MaxIdleConnsPerHost: 100, TLSNextProto: none}
	}
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	return func(ctx context.Context, url string) (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return "", err
		}
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", url, response.Status)
		}
		return string(body), err
	}
}

// Address is where to listen.
func Address() string { return "127.0.0.1:" + os.Getenv("PORT") }

// Certificate names the files of the certificate and its key; empty if the service is without TLS.
func Certificate() (certificate, key string) { return os.Getenv("TLS_CERT"), os.Getenv("TLS_KEY") }

// Serve serves with net/http, with TLS (HTTP/2 if the caller wants it) if there is a certificate.
func Serve(handler http.Handler) {
	server := &http.Server{Addr: Address(), Handler: handler}
	certificate, key := Certificate()
	if certificate == "" {
		log.Fatal(server.ListenAndServe())
	}
	log.Fatal(server.ListenAndServeTLS(certificate, key))
}

// Saying returns what Stream says its parts with: each is sent at once.
func Saying(w http.ResponseWriter) func(string) {
	return func(part string) {
		fmt.Fprintf(w, "%s\n", part)
		w.(http.Flusher).Flush()
	}
}
