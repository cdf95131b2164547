module wirespan/tests/shapes/grpc

go 1.21

require (
	google.golang.org/grpc v1.64.1
	wirespan/tests/shapes/goservice v0.0.0
)

replace wirespan/tests/shapes/goservice => ../goservice

require (
	golang.org/x/net v0.26.0 // indirect
	golang.org/x/sys v0.21.0 // indirect
	golang.org/x/text v0.16.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240318140521-94a12d6c2237 // indirect
	google.golang.org/protobuf v1.33.0 // indirect
)
