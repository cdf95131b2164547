// HTTP/3 by quic-go, which takes several datagrams with one call (recvmmsg) and gives several to one call
// (UDP_SEGMENT).
//
// usage: quic_go serve             prints its port, then at SIGTERM the number of connections that it has seen
//
//	quic_go ask PORT N [MANY]  N connections, four at a time, each with MANY requests
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const name = "shop.example"

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func certificate() tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	end := time.Now().Add(time.Hour)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: end}
	der := must(x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func serve() {
	var connections atomic.Int64
	socket := must(net.ListenPacket("udp", "127.0.0.1:0"))
	server := http3.Server{
		TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{certificate()}}),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Write(make([]byte, 20000))
		}),
		ConnContext: func(ctx context.Context, _ *quic.Conn) context.Context {
			connections.Add(1)
			return ctx
		},
	}
	go server.Serve(socket)
	fmt.Println(socket.LocalAddr().(*net.UDPAddr).Port)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	fmt.Println(connections.Load())
}

func ask(port string, number, many int) {
	var work sync.WaitGroup
	turns := make(chan int)
	for range 4 {
		work.Add(1)
		go func() {
			defer work.Done()
			for n := range turns {
				config := &tls.Config{InsecureSkipVerify: true, ServerName: name}
				transport := &http3.Transport{TLSClientConfig: config}
				client := http.Client{Transport: transport}
				for i := range many {
					url := fmt.Sprintf("https://127.0.0.1:%s/%d/%d", port, n, i)
					answer := must(client.Get(url))
					io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
				transport.Close()
			}
		}()
	}
	for n := range number {
		turns <- n
	}
	close(turns)
	work.Wait()
}

func main() {
	if os.Args[1] == "serve" {
		serve()
		return
	}
	many := 1
	if len(os.Args) > 4 {
		many = must(strconv.Atoi(os.Args[4]))
	}
	ask(os.Args[2], must(strconv.Atoi(os.Args[3])), many)
}
