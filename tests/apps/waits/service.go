// A service whose requests wait in known ways, with a goroutine for each. It says how long each wait was: one JSON line
// for each request on standard output.
//
// usage: service PORT LEAF_PORT DIR
//
// Paths are /WHAT/MS/ID, as of service.c. `gc` waits for a collection of garbage. Threads have no names in Go.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

type wait struct {
	Kind string  `json:"kind"`
	By   string  `json:"by"`
	Held string  `json:"held"`
	Took float64 `json:"took"`
}

type request struct {
	Path   string  `json:"path"`
	Ran    float64 `json:"ran"`
	Queued float64 `json:"queued"`
	Took   float64 `json:"took"`
	Waits  []wait  `json:"waits"`
	ms     time.Duration
}

var (
	first, second, saying sync.Mutex
	leaf                  string
	file                  *os.File
	pool                  = make(chan *http.Client, 1)
	heap                  [][]*int
)

func (r *request) waited(kind, by string, began time.Time) {
	r.Waits = append(r.Waits, wait{kind, by, "", time.Since(began).Seconds()})
}

// How long this thread ran, and how long it has been ready without a processor.
func clocks() (ran, queued float64) {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 3, uintptr(unsafe.Pointer(&t)), 0) // CLOCK_THREAD_CPUTIME_ID
	text, _ := os.ReadFile("/proc/thread-self/schedstat")
	fields := strings.Fields(string(text) + " 0 0")
	waited, _ := strconv.ParseFloat(fields[1], 64)
	return float64(t.Nano()) / 1e9, waited / 1e9
}

// Stays on its thread, whose clocks tell how long it ran.
func (r *request) spin() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ran, queued := clocks()
	for r.Ran < r.ms.Seconds() {
		var t syscall.Timespec
		syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 3, uintptr(unsafe.Pointer(&t)), 0)
		r.Ran = float64(t.Nano())/1e9 - ran
	}
	_, since := clocks()
	r.Queued = since - queued
}

func (r *request) ask(client *http.Client) {
	began := time.Now()
	answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%s/sleep/%d/leaf", leaf, r.ms.Milliseconds()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	r.waited("socket", "network", began)
}

func (r *request) sync() {
	bytes := make([]byte, 1<<20)
	all := time.Duration(0)
	for end := time.Now().Add(r.ms); ; {
		_, _ = file.WriteAt(bytes, 0)
		began := time.Now()
		_ = file.Sync()
		all += time.Since(began)
		if time.Now().After(end) {
			break
		}
	}
	r.Waits = append(r.Waits, wait{"disk", "disk", "", all.Seconds()})
}

func (r *request) collect() {
	heap = nil
	for range 100 {
		some := make([]*int, 10000)
		for i := range some {
			some[i] = new(int)
		}
		heap = append(heap, some)
	}
	began := time.Now()
	runtime.GC()
	r.waited("gc", "", began)
	heap = nil
}

func (r *request) work(what string) {
	switch what {
	case "spin":
		r.spin()
	case "sleep":
		began := time.Now()
		time.Sleep(r.ms)
		r.waited("sleep", "timer", began)
	case "call":
		r.ask(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}})
	case "pool":
		var client *http.Client
		select {
		case client = <-pool:
		default:
			began := time.Now()
			client = <-pool
			r.waited("event", "goroutine", began)
		}
		r.ask(client)
		pool <- client
	case "disk":
		r.sync()
	case "pipe":
		read, write, _ := os.Pipe()
		go func() {
			time.Sleep(r.ms)
			_, _ = write.Write([]byte{1})
		}()
		began := time.Now()
		_, _ = read.Read(make([]byte, 1))
		r.waited("pipe", "goroutine", began)
		read.Close()
		write.Close()
	case "event":
		happened := make(chan bool)
		go func() {
			time.Sleep(r.ms)
			happened <- true
		}()
		began := time.Now()
		<-happened
		r.waited("event", "goroutine", began)
	case "dns":
		began := time.Now()
		if _, err := net.LookupHost(fmt.Sprintf("w%d.test", r.ms.Milliseconds())); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		r.waited("dns", "network", began)
	case "child":
		began := time.Now()
		_ = exec.Command("sleep", fmt.Sprint(r.ms.Seconds())).Run()
		r.waited("process", "service sleep", began)
	case "gc":
		r.collect()
	case "keep":
		first.Lock()
		r.sync()
		first.Unlock()
	case "convoy":
		second.Lock()
		began := time.Now()
		first.Lock()
		r.waited("lock", "goroutine", began)
		first.Unlock()
		second.Unlock()
	case "end":
		began := time.Now()
		second.Lock()
		r.waited("lock", "goroutine", began)
		second.Unlock()
	}
}

func main() {
	leaf = os.Args[2]
	file, _ = os.Create(os.Args[3] + "/app.log")
	pool <- &http.Client{}
	http.HandleFunc("/", func(w http.ResponseWriter, asked *http.Request) {
		began := time.Now()
		parts := strings.Split(asked.URL.Path, "/")
		ms, _ := strconv.Atoi(parts[2])
		r := request{Path: asked.URL.Path, Waits: []wait{}, ms: time.Duration(ms) * time.Millisecond}
		r.work(parts[1])
		r.Took = time.Since(began).Seconds()
		said, _ := json.Marshal(r)
		saying.Lock()
		fmt.Println(string(said))
		saying.Unlock()
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
