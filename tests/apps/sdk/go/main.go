// A service with spans of OpenTelemetry's SDK for Go: the same as `Page` of ../run.py, which starts it, asks it, and
// says what it writes of its spans.
//
// usage: service OTLP_ENDPOINT NAME LEAF_PORT    prints its port; ends when its input ends
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sys/unix"
)

const duration = 20 * time.Millisecond

var (
	tracer     trace.Tracer
	propagator propagation.TraceContext
	leaf       string
	lines      sync.Mutex
)

// What a goroutine did within a span.
type clock struct {
	Case   string  `json:"case"`
	Name   string  `json:"name"`
	Slept  float64 `json:"slept"`
	Called float64 `json:"called"`
	Ran    float64 `json:"ran"`
	Took   float64 `json:"took"`
	Span   string  `json:"span"`
	began  time.Time
}

func (c *clock) end(span trace.Span) {
	c.Span, c.Took = span.SpanContext().SpanID().String(), time.Since(c.began).Seconds()
	lines.Lock()
	defer lines.Unlock()
	json.NewEncoder(os.Stdout).Encode(c)
}

func timed(do func()) float64 {
	began := time.Now()
	do()
	return time.Since(began).Seconds()
}

func thread() time.Duration {
	var at unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at)
	return time.Duration(at.Nano())
}

// Runs, on one thread, as its clock is asked.
func spin() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for until := thread() + duration; thread() < until; {
	}
}

// A span within the present one: it sleeps, it runs, or it does both. Returns how long it ran.
func spanOfWork(ctx context.Context, which, name string) float64 {
	c := clock{Case: which, Name: name, began: time.Now()}
	_, span := tracer.Start(ctx, name)
	if name != "spin" {
		c.Slept = timed(func() { time.Sleep(duration) })
	}
	if name != "sleep" {
		spin()
		c.Ran = duration.Seconds()
	}
	span.End()
	c.end(span)
	return c.Ran
}

func call(ctx context.Context, which string) {
	c := clock{Case: which, Name: "call", began: time.Now()}
	ctx, span := tracer.Start(ctx, "call", trace.WithSpanKind(trace.SpanKindClient))
	path := fmt.Sprintf("%s/leaf/%d", leaf, duration.Milliseconds())
	request, _ := http.NewRequestWithContext(ctx, "GET", path, nil)
	propagator.Inject(ctx, propagation.HeaderCarrier(request.Header))
	c.Called = timed(func() {
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	})
	span.End()
	c.end(span)
}

func serve(w http.ResponseWriter, r *http.Request) {
	which := strings.Split(r.URL.Path, "/")[1]
	c := clock{Case: which, Name: "request", began: time.Now()}
	ctx := propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := tracer.Start(ctx, "GET "+r.URL.Path, trace.WithSpanKind(trace.SpanKindServer))
	for _, name := range []string{"sleep", "spin", "both"} {
		c.Ran += spanOfWork(ctx, which, name)
	}
	if which == "called" || which == "warm" {
		call(ctx, which)
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(200)
	w.(http.Flusher).Flush()
	span.End()
	c.end(span)
}

func main() {
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(os.Args[1]))
	if err != nil {
		panic(err)
	}
	attributes := []attribute.KeyValue{attribute.String("service.name", os.Args[2])}
	if os.Args[2] != "called" {
		attributes = append(attributes, attribute.Int("process.pid", os.Getpid()))
	}
	batches := sdk.WithBatcher(exporter, sdk.WithBatchTimeout(500*time.Millisecond))
	provider := sdk.NewTracerProvider(batches, sdk.WithResource(resource.NewSchemaless(attributes...)))
	tracer, leaf = provider.Tracer("tests.apps.sdk"), "http://127.0.0.1:"+os.Args[3]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go http.Serve(listener, http.HandlerFunc(serve))
	io.Copy(io.Discard, os.Stdin)
	if err := provider.Shutdown(ctx); err != nil {
		panic(err)
	}
}
