// A service that passes each request on, over one kept connection. Says its port.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

func main() {
	handle := func(w http.ResponseWriter, came *http.Request) {
		body, err := io.ReadAll(came.Body)
		if err != nil {
			panic(err)
		}
		url := "http://" + os.Args[1] + "/back" + came.URL.Path
		asked, err := http.NewRequest(came.Method, url, bytes.NewReader(body))
		if err != nil {
			panic(err)
		}
		answer, err := http.DefaultClient.Do(asked)
		if err != nil {
			panic(err)
		}
		defer answer.Body.Close()
		w.Header().Set("Content-Length", fmt.Sprint(answer.ContentLength))
		io.Copy(w, answer.Body)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.Serve(listener, http.HandlerFunc(handle)))
}
