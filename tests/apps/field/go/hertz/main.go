// Hertz on netpoll with its client, Bun on pgdriver, and rueidis, which puts the commands of all goroutines into
// pipelines. The back is called by Connect.
package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/app/client"
	"github.com/cloudwego/hertz/pkg/app/server"
	"github.com/cloudwego/hertz/pkg/common/hlog"
	"github.com/cloudwego/hertz/pkg/protocol"

	"wirespan/tests/field/rpc"
	"wirespan/tests/field/shop"
)

func main() {
	hlog.SetLevel(hlog.LevelWarn)
	c, err := client.NewClient(client.WithMaxConnsPerHost(100), client.WithDialTimeout(5*time.Second))
	if err != nil {
		panic(err)
	}
	fetch := func(ctx context.Context, url string) (string, error) {
		request, response := protocol.AcquireRequest(), protocol.AcquireResponse()
		defer protocol.ReleaseRequest(request)
		defer protocol.ReleaseResponse(response)
		request.SetRequestURI(url)
		if err := c.Do(ctx, request, response); err != nil {
			return "", err
		}
		if response.StatusCode() != http.StatusOK {
			return "", fmt.Errorf("%s: %d", url, response.StatusCode())
		}
		return string(response.Body()), nil
	}
	s := shop.New(shop.Rueidis(), shop.Bun(), fetch)
	s.Back = rpc.ConnectBack()
	batch := s.NewBatch(8)
	h := server.Default(server.WithHostPorts(shop.Address()))
	route := func(path string, handle shop.Handle) {
		h.GET(path+"/:id", func(ctx context.Context, c *app.RequestContext) {
			answer, err := handle(ctx, c.Param("id"))
			if err != nil {
				c.String(http.StatusBadGateway, err.Error())
				return
			}
			c.JSON(http.StatusOK, answer)
		})
	}
	s.Routes(route)
	route("/batch", func(ctx context.Context, id string) (shop.Answer, error) { return s.Batch(ctx, batch, id) })
	route("/later", func(_ context.Context, id string) (shop.Answer, error) { return s.Later(id), nil })
	h.Spin()
}
