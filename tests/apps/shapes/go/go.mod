module wirespan/tests/shapes/go

go 1.17

require wirespan/tests/shapes/goservice v0.0.0

replace wirespan/tests/shapes/goservice => ../goservice
