module wirespan/tests/shapes/goservice

go 1.17
