// Fiber (fasthttp) with fasthttp's client, a pool of pgx, and go-redis.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/recover"
	"github.com/valyala/fasthttp"

	"wirespan/tests/field/shop"
)

var client = &fasthttp.Client{MaxConnsPerHost: 100}

func fetch(_ context.Context, url string) (string, error) {
	status, body, err := client.Get(nil, url)
	if err == nil && status != fasthttp.StatusOK {
		err = fmt.Errorf("%s: %d", url, status)
	}
	return string(body), err
}

func main() {
	s := shop.New(shop.GoRedis(), shop.Pgx(), fetch)
	app := fiber.New(fiber.Config{DisableStartupMessage: true, Immutable: true})
	app.Use(recover.New())
	route := func(path string, handle shop.Handle) {
		app.Get(path+"/:id", func(c *fiber.Ctx) error {
			answer, err := handle(c.UserContext(), c.Params("id"))
			if err != nil {
				return fiber.NewError(fiber.StatusBadGateway, err.Error())
			}
			return c.JSON(answer)
		})
	}
	s.Routes(route)
	app.Get("/later/:id", func(c *fiber.Ctx) error { return c.JSON(s.Later(c.Params("id"))) })
	app.Get("/stream/:id", func(c *fiber.Ctx) error {
		id := c.Params("id")
		c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
			_ = s.Stream(context.Background(), id, func(part string) {
				fmt.Fprintln(w, part)
				_ = w.Flush()
			})
		})
		return nil
	})
	certificate, key := shop.Certificate()
	if certificate == "" {
		log.Fatal(app.Listen(shop.Address()))
	}
	log.Fatal(app.ListenTLS(shop.Address(), certificate, key))
}
