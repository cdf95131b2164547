package shop

import (
	"context"
	"errors"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

type pool struct{ *pgxpool.Pool }

// Pgx is PostgreSQL by a pool of pgx: statements are prepared once a connection.
func Pgx() Store {
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	config.MaxConns = 10
	made, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	return pool{made}
}

func (p pool) Item(ctx context.Context, id string) (name string, stock int, err error) {
	err = p.QueryRow(ctx, "SELECT name, stock FROM items WHERE id = $1", id).Scan(&name, &stock)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return name, stock, err
}

func (p pool) Order(ctx context.Context, id string) error {
	return pgx.BeginFunc(ctx, p.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id, item) VALUES ($1, $2)", id, "book"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE orders SET state = 'paid' WHERE id = $1", id)
		return err
	})
}

func (p pool) Restock(ctx context.Context, id string) error {
	_, err := p.Exec(ctx, "UPDATE items SET stock = stock + 1 WHERE id = $1", id)
	return err
}
