// A consumer of Kafka with kafka-go that calls a database and the leaf, one message after the other.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	"github.com/segmentio/kafka-go"

	"wirespan/tests/field/shop"
)

func main() {
	broker, ctx := os.Getenv("KAFKA_URL"), context.Background()
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{broker}, GroupID: "shop", GroupTopics: []string{"ship", "pack", "pay"},
		StartOffset: kafka.FirstOffset,
	})
	writer := &kafka.Writer{Addr: kafka.TCP(broker), Balancer: &kafka.Hash{}, BatchTimeout: 5 * time.Millisecond}
	work := shop.Jobs(func(ctx context.Context, topic string, message []byte) error {
		return writer.WriteMessages(ctx, kafka.Message{Topic: topic, Key: message, Value: message})
	})
	for {
		record, err := reader.ReadMessage(ctx)
		if err != nil {
			log.Fatal(err)
		}
		var message shop.Message
		if err = json.Unmarshal(record.Value, &message); err == nil {
			err = work(ctx, record.Topic, message)
		}
		if err != nil {
			log.Print(err)
		}
	}
}
