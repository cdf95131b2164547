// A server whose requests wait in functions with known names.
//
// usage: stacks PORT
//
// A path is /WHAT/MS. `sleep` sleeps for MS in a system call of its thread, `spin` runs for MS. Each goes main.checkout
// → main.price → main.WHATWork. `inlined` sleeps below functions that the compiler puts into each other.
package main

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var done int

//go:noinline
func sleepWork(ms int) {
	t := syscall.NsecToTimespec(int64(ms) * 1e6)
	_ = syscall.Nanosleep(&t, nil)
	done++
}

//go:noinline
func spinWork(ms int) {
	for until := time.Now().Add(time.Duration(ms) * time.Millisecond); time.Now().Before(until); {
		for range 100000 {
			done++
		}
	}
}

type shop struct{ discount int }

func (s *shop) total(ms int) { sleepWork(ms - s.discount) }

func inlined(ms int) { (&shop{}).total(ms) }

//go:noinline
func price(what string, ms int) {
	switch what {
	case "sleep":
		sleepWork(ms)
	case "inlined":
		inlined(ms)
	default:
		spinWork(ms)
	}
	done++
}

//go:noinline
func checkout(what string, ms int) {
	price(what, ms)
	done++
}

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Path, "/")
		ms, _ := strconv.Atoi(parts[len(parts)-1])
		checkout(parts[1], ms)
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
