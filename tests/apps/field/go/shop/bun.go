package shop

import (
	"context"
	"database/sql"
	"errors"
	"os"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"
)

type bunItem struct {
	bun.BaseModel `bun:"table:items"`

	ID    string `bun:",pk"`
	Name  string
	Stock int
}

type bunOrder struct {
	bun.BaseModel `bun:"table:orders"`

	ID    string `bun:",pk"`
	Item  string
	State string
}

type bunStore struct{ *bun.DB }

// Bun is PostgreSQL by Bun on its own driver, which writes parameters into the statement.
func Bun() Store {
	db := sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(os.Getenv("DATABASE_URL") + "?sslmode=disable")))
	db.SetMaxOpenConns(10)
	db.SetMaxIdleConns(10)
	return bunStore{bun.NewDB(db, pgdialect.New())}
}

func (b bunStore) Item(ctx context.Context, id string) (string, int, error) {
	var found bunItem
	err := b.NewSelect().Model(&found).Where("id = ?", id).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return found.Name, found.Stock, err
}

func (b bunStore) Order(ctx context.Context, id string) error {
	return b.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		order := &bunOrder{ID: id, Item: "book", State: "new"}
		if _, err := tx.NewInsert().Model(order).Exec(ctx); err != nil {
			return err
		}
		order.State = "paid"
		_, err := tx.NewUpdate().Model(order).Column("state").WherePK().Exec(ctx)
		return err
	})
}

func (b bunStore) Restock(ctx context.Context, id string) error {
	_, err := b.NewUpdate().Model((*bunItem)(nil)).Set("stock = stock + 1").Where("id = ?", id).Exec(ctx)
	return err
}
