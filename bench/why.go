// A server of bench/why: as bench/why.c, in Go. Each request runs for a while, then waits for a goroutine that runs for
// half of that. Prints its port.
//
// why.go MICROSECONDS
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

func work(d time.Duration) {
	for until := time.Now().Add(d); time.Now().Before(until); {
	}
}

func main() {
	us, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	each := time.Duration(us) * time.Microsecond
	lines := make(chan chan struct{})
	go func() {
		for written := range lines {
			work(each / 2)
			written <- struct{}{}
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		written := make(chan struct{})
		work(each)
		lines <- written
		<-written
		fmt.Fprint(w, "ok")
	})))
}
