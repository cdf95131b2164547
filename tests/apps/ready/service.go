// A service whose runtime runs one goroutine at a time (GOMAXPROCS 1), and whose requests are kept from running by
// other goroutines. Each says how long it did not run: one JSON line for each request on standard output.
//
// usage: service COUNT
//
// /spin/N runs until it has run for 25 ms, beside three others that do so: Go's scheduler takes turns of 10 ms.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// A goroutine that reads the clock all the time has run meanwhile, unless two readings are so far apart.
const gap = 100 * time.Microsecond

// Runs for this time. Returns how long it did not run.
func spin(work time.Duration) (kept time.Duration) {
	last, ran := time.Now(), time.Duration(0)
	for ran < work {
		now := time.Now()
		if past := now.Sub(last); past > gap {
			kept += past
		} else {
			ran += past
		}
		last = now
	}
	return kept
}

func answer(w http.ResponseWriter, r *http.Request) {
	var others sync.WaitGroup
	for i := 0; i < 3; i++ {
		others.Add(1)
		go func() {
			spin(25 * time.Millisecond)
			others.Done()
		}()
	}
	began := time.Now()
	kept := spin(25 * time.Millisecond)
	took := time.Since(began)
	fmt.Fprintln(w, "done")
	line, _ := json.Marshal(map[string]any{"path": r.URL.Path, "kept": kept.Seconds(), "took": took.Seconds()})
	fmt.Println(string(line))
	go others.Wait()
}

func main() {
	runtime.GOMAXPROCS(1)
	count, _ := strconv.Atoi(os.Args[1])
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	http.HandleFunc("/spin/", answer)
	go http.Serve(listener, nil)
	for n := 0; n < count; n++ {
		time.Sleep(150 * time.Millisecond) // the others of the last request have ended
		answer, err := http.Get(fmt.Sprintf("http://%s/spin/%d", listener.Addr(), n))
		if err != nil {
			panic(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
}
