// Echo, with database/sql over lib/pq, and redigo.
package main

import (
	"log"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"wirespan/tests/field/shop"
)

func main() {
	s := shop.New(shop.Redigo(), shop.SQL("postgres"), shop.Client())
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Use(middleware.Recover(), middleware.RequestID())
	route := func(path string, handle shop.Handle) {
		e.GET(path+"/:id", func(c echo.Context) error {
			answer, err := handle(c.Request().Context(), c.Param("id"))
			if err != nil {
				return echo.NewHTTPError(http.StatusBadGateway, err.Error())
			}
			return c.JSON(http.StatusOK, answer)
		})
	}
	s.Routes(route)
	e.GET("/later/:id", func(c echo.Context) error { return c.JSON(http.StatusOK, s.Later(c.Param("id"))) })
	e.GET("/stream/:id", func(c echo.Context) error {
		return s.Stream(c.Request().Context(), c.Param("id"), shop.Saying(c.Response()))
	})
	certificate, key := shop.Certificate()
	if certificate == "" {
		log.Fatal(e.Start(shop.Address()))
	}
	log.Fatal(e.StartTLS(shop.Address(), certificate, key))
}
