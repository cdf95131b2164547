// A consumer of RabbitMQ with amqp091-go, with four workers. It calls a database and the leaf.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"wirespan/tests/field/shop"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	channel := must(must(amqp.Dial(os.Getenv("AMQP_URL"))).Channel())
	if err := channel.Qos(4, 0, false); err != nil {
		log.Fatal(err)
	}
	work := shop.Jobs(func(ctx context.Context, queue string, message []byte) error {
		return channel.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{Body: message})
	})
	var workers sync.WaitGroup
	for _, queue := range []string{"ship", "pack", "pay"} {
		must(channel.QueueDeclare(queue, true, false, false, false, nil))
		deliveries := must(channel.Consume(queue, "", false, false, false, false, nil))
		for range 4 {
			workers.Go(func() {
				for delivery := range deliveries {
					var message shop.Message
					err := json.Unmarshal(delivery.Body, &message)
					if err == nil {
						err = work(context.Background(), queue, message)
					}
					if err != nil {
						log.Print(err)
					}
					_ = delivery.Ack(false)
				}
			})
		}
	}
	workers.Wait()
}
