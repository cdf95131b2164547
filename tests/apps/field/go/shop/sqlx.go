package shop

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"os"

	"github.com/jmoiron/sqlx"
)

type sqlxStore struct{ *sqlx.DB }

// Sqlx is PostgreSQL by sqlx, on pgx.
func Sqlx() Store {
	db, err := sqlx.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(10)
	db.SetMaxIdleConns(10)
	return sqlxStore{db}
}

func (s sqlxStore) Item(ctx context.Context, id string) (string, int, error) {
	var found item
	err := s.GetContext(ctx, &found, "SELECT name, stock FROM items WHERE id = $1", id)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return found.Name, found.Stock, err
}

func (s sqlxStore) Order(ctx context.Context, id string) error {
	tx, err := s.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	values := map[string]any{"id": id, "item": "book"}
	if _, err = tx.NamedExecContext(ctx, "INSERT INTO orders (id, item) VALUES (:id, :item)", values); err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, "UPDATE orders SET state = 'paid' WHERE id = $1", id); err != nil {
		return err
	}
	return tx.Commit()
}

func (s sqlxStore) Restock(ctx context.Context, id string) error {
	_, err := s.ExecContext(ctx, "UPDATE items SET stock = stock + 1 WHERE id = $1", id)
	return err
}
