// A server whose handlers have their calls made by others. `go client|child|channel|buffered BACK`:
//
//	client    by net/http's transport, whose requests are written by a goroutine per connection
//	child     by goroutines that the handler starts, two at once
//	channel   by four workers that read jobs from a channel without a buffer
//	buffered  by four workers that read jobs from a channel with a buffer
//
// Prints `listening PORT`.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
)

type job struct {
	number string
	done   chan string
}

var back string

// Calls the back end on a connection of its own; what reads and writes is the goroutine that calls.
type caller struct {
	to   net.Conn
	from *bufio.Reader
}

func (c *caller) call(number string) string {
	if c.to == nil {
		to, err := net.Dial("tcp", back)
		if err != nil {
			panic(err)
		}
		c.to, c.from = to, bufio.NewReader(to)
	}
	fmt.Fprintf(c.to, "GET /u/%s HTTP/1.1\r\nHost: b\r\n\r\n", number)
	answer, err := http.ReadResponse(c.from, nil)
	if err != nil {
		panic(err)
	}
	body, _ := io.ReadAll(answer.Body)
	return string(body)
}

func get(number string) string {
	answer, err := http.Get("http://" + back + "/u/" + number)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return string(body)
}

func children(number string) string {
	var group sync.WaitGroup
	answers := make([]string, 2)
	for i := range answers {
		i := i
		group.Add(1)
		go func() {
			defer group.Done()
			answers[i] = get(number)
		}()
	}
	group.Wait()
	return strings.Join(answers, "")
}

func workers(depth int) func(string) string {
	jobs := make(chan job, depth)
	for i := 0; i < 4; i++ {
		go func() {
			var c caller
			for j := range jobs {
				j.done <- c.call(j.number)
			}
		}()
	}
	return func(number string) string {
		j := job{number, make(chan string)}
		jobs <- j
		return <-j.done
	}
}

func main() {
	back = "127.0.0.1:" + os.Args[2]
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 64
	how := map[string]func(string) string{
		"client": get, "child": children, "channel": workers(0), "buffered": workers(256),
	}[os.Args[1]]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("listening", listener.Addr().(*net.TCPAddr).Port)
	http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, how(strings.TrimPrefix(r.URL.Path, "/r/")))
	}))
}
