// The catalogue of the shop: one goroutine per connection, locked to its thread, so that a request is read, its
// calls are made and its answer is written on one thread.
//
// GET /items       asks pricing for three items, answers in chunks
// GET /items/N     asks pricing for one; 404 from item 900 up, 500 when pricing fails
//
// Configured by the environment: LISTEN, PRICING (host:port) and GROUND_TRUTH_DIR.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const service = "catalog"

var (
	truth  *os.File
	number uint64
)

func nextID() string { return fmt.Sprintf("%s-%d", service, atomic.AddUint64(&number, 1)) }

// note appends one record in one write: nothing is lost when the process is ended.
func note(record map[string]interface{}) {
	record["service"] = service
	line, err := json.Marshal(record)
	if err == nil {
		_, err = truth.Write(append(line, '\n'))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// worker is one connection of a caller, with its own connection to pricing.
type worker struct {
	conn    net.Conn
	pricing net.Conn
	reader  *bufio.Reader
	current string
}

func (w *worker) price(item int) (int, json.RawMessage, error) {
	if w.pricing == nil {
		conn, err := net.Dial("tcp", os.Getenv("PRICING"))
		if err != nil {
			return 0, nil, err
		}
		w.pricing, w.reader = conn, bufio.NewReader(conn)
	}
	path := fmt.Sprintf("/price/%d", item)
	start := time.Now().UnixNano()
	const head = "GET %s HTTP/1.1\r\nHost: pricing\r\nAccept: application/json\r\n\r\n"
	if _, err := fmt.Fprintf(w.pricing, head, path); err != nil {
		return 0, nil, err
	}
	response, err := http.ReadResponse(w.reader, nil)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, err
	}
	note(map[string]interface{}{
		"kind": "client", "id": nextID(), "in": w.current, "local": w.pricing.LocalAddr().String(),
		"peer":  w.pricing.RemoteAddr().String(),
		"start": start, "end": time.Now().UnixNano(), "protocol": "http", "operation": "GET", "target": path,
		"status": response.StatusCode,
	})
	return response.StatusCode, body, nil
}

func (w *worker) item(text string) (int, interface{}) {
	item, err := strconv.Atoi(text)
	if err != nil || item < 1 || item >= 900 {
		return 404, map[string]string{"error": "no such item"}
	}
	status, price, err := w.price(item)
	if err != nil || status != 200 {
		return 500, map[string]string{"error": "no price"}
	}
	return 200, map[string]interface{}{"item": item, "name": fmt.Sprintf("thing %d", item), "price": price}
}

func (w *worker) answer(r *http.Request) (int, bool, interface{}) {
	switch {
	case r.URL.Path == "/items":
		var items []interface{}
		for item := 1; item <= 3; item++ {
			_, one := w.item(strconv.Itoa(item))
			items = append(items, one)
		}
		return 200, true, items
	case strings.HasPrefix(r.URL.Path, "/items/"):
		status, one := w.item(strings.TrimPrefix(r.URL.Path, "/items/"))
		return status, false, one
	}
	return 404, false, map[string]string{"error": "no such page"}
}

func (w *worker) reply(status int, chunked bool, answer interface{}) error {
	body, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w.conn)
	fmt.Fprintf(out, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n", status, http.StatusText(status))
	if !chunked {
		fmt.Fprintf(out, "Content-Length: %d\r\n\r\n%s", len(body), body)
		return out.Flush()
	}
	fmt.Fprint(out, "Transfer-Encoding: chunked\r\n\r\n")
	chunks := httputil.NewChunkedWriter(out)
	for len(body) > 0 { // small chunks, each in a write of its own
		n := len(body)
		if n > 64 {
			n = 64
		}
		if _, err := chunks.Write(body[:n]); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		body = body[n:]
	}
	if err := chunks.Close(); err != nil {
		return err
	}
	fmt.Fprint(out, "\r\n")
	return out.Flush()
}

func (w *worker) serve() {
	runtime.LockOSThread()
	defer w.conn.Close()
	reader := bufio.NewReader(w.conn)
	for {
		if _, err := reader.Peek(1); err != nil {
			break
		}
		start := time.Now().UnixNano()
		request, err := http.ReadRequest(reader)
		if err != nil {
			break
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			break
		}
		w.current = nextID()
		status, chunked, answer := w.answer(request)
		err = w.reply(status, chunked, answer)
		note(map[string]interface{}{
			"kind": "server", "id": w.current, "local": w.conn.LocalAddr().String(),
			"peer":  w.conn.RemoteAddr().String(),
			"start": start, "end": time.Now().UnixNano(), "protocol": "http", "operation": request.Method,
			"target": request.URL.Path, "status": status,
		})
		if err != nil {
			break
		}
	}
	if w.pricing != nil {
		w.pricing.Close()
	}
}

func main() {
	var err error
	path := filepath.Join(os.Getenv("GROUND_TRUTH_DIR"), service+".jsonl")
	if truth, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", os.Getenv("LISTEN"))
	if err != nil {
		log.Fatal(err)
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go (&worker{conn: conn}).serve()
	}
}
