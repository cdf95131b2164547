package shop

import (
	"context"
	"encoding/json"
	"os"
)

// Message is what a job is told.
type Message struct {
	Item  string `json:"item"`
	Again bool   `json:"again,omitempty"`
}

// Jobs returns what works on the messages of a queue: `ship` calls a database and the leaf, `pack` asks for `ship`, and
// `pay` asks for itself once more.
func Jobs(send func(context.Context, string, []byte) error) func(context.Context, string, Message) error {
	store, get, leaf := SQL("pgx"), Client(), os.Getenv("LEAF_URL")
	ask := func(ctx context.Context, queue string, message Message) error {
		body, err := json.Marshal(message)
		if err != nil {
			return err
		}
		return send(ctx, queue, body)
	}
	return func(ctx context.Context, queue string, message Message) error {
		if queue == "ship" {
			if err := store.Restock(ctx, message.Item); err != nil {
				return err
			}
		}
		if _, err := get(ctx, leaf+"/"+queue+"/"+message.Item); err != nil {
			return err
		}
		switch {
		case queue == "pack":
			return ask(ctx, "ship", message)
		case queue == "pay" && !message.Again:
			return ask(ctx, "pay", Message{Item: message.Item, Again: true})
		}
		return nil
	}
}
