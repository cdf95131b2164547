// Package goservice has the common parts of the Go services of a shape: the environment (README.md of the folder
// above), the ways to make the calls of a request, and the ground truth.
package goservice

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

var (
	Name      = os.Getenv("SERVICE")
	How       = os.Getenv("HOW")
	Listen    = os.Getenv("LISTEN")
	Entry     = os.Getenv("ENTRY") == "1"
	Upstreams []string
	slower    = 1.0
	truth     *os.File
	queue     = make(chan todo)
	ask       Ask
)

// Ask asks an upstream, by its place in Upstreams, and says the status of the answer.
type Ask func(upstream int, path string) (int, error)

type record struct {
	Service string  `json:"service"`
	Kind    string  `json:"kind"`
	Target  string  `json:"target"`
	In      *string `json:"in,omitempty"`
	Port    int     `json:"port"`
	Start   int64   `json:"start"`
	End     int64   `json:"end"`
	Status  int     `json:"status"`
}

type todo struct {
	upstream, load int
	in             string
	done           chan bool
}

func init() {
	for _, each := range strings.Split(os.Getenv("CALLS"), ",") {
		if each != "" {
			Upstreams = append(Upstreams, each)
		}
	}
	if factor, err := strconv.ParseFloat(os.Getenv("SLOWER"), 64); err == nil {
		slower = factor
	}
}

// Start opens the ground truth, and starts the workers if there are any.
func Start(by Ask) {
	var err error
	path := filepath.Join(os.Getenv("GROUND_TRUTH_DIR"), Name+".jsonl")
	if truth, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		log.Fatal(err)
	}
	ask = by
	workers, _ := strconv.Atoi(os.Getenv("WORKERS"))
	for i := 0; i < workers && How == "channel"; i++ {
		go worker()
	}
}

func port(address string) int {
	_, text, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(text)
	return n
}

// note appends one line in one write: nothing is lost when the process is ended.
func note(r record) {
	r.Service, r.End = Name, time.Now().UnixNano()
	line, _ := json.Marshal(r)
	if _, err := truth.Write(append(line, '\n')); err != nil {
		log.Fatal(err)
	}
}

// calls says what a request makes its service call, by its path alone.
func calls(path string) []todo {
	var all []todo
	load, _ := strconv.Atoi(strings.Split(path, "/")[2])
	for u := range Upstreams {
		for i := 0; i <= load>>uint(u)&1; i++ {
			all = append(all, todo{u, (load + i + 1) % 4, path, make(chan bool, 1)})
		}
	}
	return all
}

func call(t todo) bool {
	var number [6]byte
	_, _ = rand.Read(number[:])
	path := fmt.Sprintf("/work/%d/%s", t.load, hex.EncodeToString(number[:]))
	start := time.Now().UnixNano()
	status, err := ask(t.upstream, path)
	if err != nil {
		log.Print(err)
		return false
	}
	note(record{Kind: "client", Target: path, In: &t.in, Port: port(Upstreams[t.upstream]), Start: start,
		Status: status})
	return status == 200
}

func worker() {
	for t := range queue {
		t.done <- call(t)
	}
}

// Work makes the calls of a request, and says the status of its answer.
func Work(path string) int {
	start, good := time.Now().UnixNano(), true
	if len(Upstreams) == 0 { // answers come in another order than questions
		number, _ := strconv.ParseUint(strings.Split(path, "/")[3], 16, 64)
		time.Sleep(time.Duration(float64(100+number%1400) * slower * float64(time.Microsecond)))
	}
	all, together := calls(path), strings.HasSuffix(How, "fanout")
	for _, t := range all {
		switch {
		case together:
			go func(t todo) { t.done <- call(t) }(t)
		case How == "channel":
			queue <- t
			good = <-t.done && good
		default:
			good = call(t) && good
		}
	}
	for i := 0; together && i < len(all); i++ {
		good = <-all[i].done && good
	}
	status := 200
	if !good {
		status = 502
	}
	note(record{Kind: "server", Target: path, Port: port(Listen), Start: start, Status: status})
	return status
}
