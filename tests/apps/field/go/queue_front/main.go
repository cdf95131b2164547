// net/http that sends work to Kafka with kafka-go; with AMQP_URL, to RabbitMQ with amqp091-go.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/segmentio/kafka-go"

	"wirespan/tests/field/shop"
)

func byKafka() func(context.Context, string, []byte) error {
	writer := &kafka.Writer{
		Addr: kafka.TCP(os.Getenv("KAFKA_URL")), Balancer: &kafka.Hash{}, BatchTimeout: 5 * time.Millisecond,
	}
	return func(ctx context.Context, topic string, message []byte) error {
		return writer.WriteMessages(ctx, kafka.Message{Topic: topic, Key: message, Value: message})
	}
}

func byAmqp(url string) func(context.Context, string, []byte) error {
	connection, err := amqp.Dial(url)
	if err != nil {
		log.Fatal(err)
	}
	channel, err := connection.Channel()
	if err != nil {
		log.Fatal(err)
	}
	for _, queue := range []string{"ship", "pack", "pay"} {
		if _, err := channel.QueueDeclare(queue, true, false, false, false, nil); err != nil {
			log.Fatal(err)
		}
	}
	return func(ctx context.Context, queue string, message []byte) error {
		return channel.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{Body: message})
	}
}

func main() {
	send := byKafka()
	if url := os.Getenv("AMQP_URL"); url != "" {
		send = byAmqp(url)
	}
	for route, topic := range map[string]string{"job": "ship", "chain": "pack", "retry": "pay"} {
		http.HandleFunc("GET /"+route+"/{id}", func(w http.ResponseWriter, r *http.Request) {
			message, _ := json.Marshal(map[string]string{"item": r.PathValue("id")})
			if err := send(r.Context(), topic, message); err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			w.Write(message)
		})
	}
	shop.Serve(http.DefaultServeMux)
}
