package shop

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"os"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
)

type database struct{ *sql.DB }

// SQL is PostgreSQL by database/sql with a driver: "pgx", or "postgres" of lib/pq, which prepares no statement for
// later.
func SQL(driver string) Store {
	url := os.Getenv("DATABASE_URL")
	if driver == "postgres" && !strings.Contains(url, "sslmode") {
		url += "?sslmode=disable"
	}
	db, err := sql.Open(driver, url)
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(10)
	db.SetMaxIdleConns(10)
	return database{db}
}

func (d database) Item(ctx context.Context, id string) (name string, stock int, err error) {
	err = d.QueryRowContext(ctx, "SELECT name, stock FROM items WHERE id = $1", id).Scan(&name, &stock)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return name, stock, err
}

func (d database) Order(ctx context.Context, id string) error {
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err = tx.ExecContext(ctx, "INSERT INTO orders (id, item) VALUES ($1, $2)", id, "book"); err != nil {
		return err
	}
	if _, err = tx.ExecContext(ctx, "UPDATE orders SET state = 'paid' WHERE id = $1", id); err != nil {
		return err
	}
	return tx.Commit()
}

func (d database) Restock(ctx context.Context, id string) error {
	_, err := d.ExecContext(ctx, "UPDATE items SET stock = stock + 1 WHERE id = $1", id)
	return err
}
