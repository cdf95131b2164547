// Gin, with a pool of pgx, go-redis and net/http's client. With RPC=on it calls the back by gRPC.
package main

import (
	"net/http"
	"os"

	"github.com/gin-gonic/gin"

	"wirespan/tests/field/rpc"
	"wirespan/tests/field/shop"
)

func main() {
	s := shop.New(shop.GoRedis(), shop.Pgx(), shop.Client())
	if os.Getenv("RPC") == "on" {
		s.Back = rpc.Back()
	}
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.Use(gin.Recovery())
	route := func(path string, handle shop.Handle) {
		r.GET(path+"/:id", func(c *gin.Context) {
			answer, err := handle(c.Request.Context(), c.Param("id"))
			if err != nil {
				c.JSON(http.StatusBadGateway, gin.H{"error": err.Error()})
				return
			}
			c.JSON(http.StatusOK, answer)
		})
	}
	s.Routes(route)
	r.GET("/later/:id", func(c *gin.Context) { c.JSON(http.StatusOK, s.Later(c.Param("id"))) })
	r.GET("/stream/:id", func(c *gin.Context) {
		_ = s.Stream(c.Request.Context(), c.Param("id"), shop.Saying(c.Writer))
	})
	shop.Serve(r)
}
