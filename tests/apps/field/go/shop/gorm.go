package shop

import (
	"context"
	"log"
	"os"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// item and order are the tables, as GORM wants them.
type item struct {
	ID    string `gorm:"primaryKey"`
	Name  string
	Stock int
}

type order struct {
	ID    string `gorm:"primaryKey"`
	Item  string
	State string
}

type orm struct{ *gorm.DB }

// Gorm is PostgreSQL by GORM, on pgx.
func Gorm() Store {
	config := &gorm.Config{Logger: logger.Default.LogMode(logger.Silent), PrepareStmt: true}
	db, err := gorm.Open(postgres.Open(os.Getenv("DATABASE_URL")), config)
	if err != nil {
		log.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		log.Fatal(err)
	}
	pool.SetMaxOpenConns(10)
	pool.SetMaxIdleConns(10)
	return orm{db}
}

func (o orm) Item(ctx context.Context, id string) (string, int, error) {
	var found item
	err := o.WithContext(ctx).Limit(1).Find(&found, "id = ?", id).Error
	return found.Name, found.Stock, err
}

func (o orm) Order(ctx context.Context, id string) error {
	return o.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&order{ID: id, Item: "book", State: "new"}).Error; err != nil {
			return err
		}
		return tx.Model(&order{ID: id}).Update("state", "paid").Error
	})
}

func (o orm) Restock(ctx context.Context, id string) error {
	return o.WithContext(ctx).Model(&item{}).Where("id = ?", id).Update("stock", gorm.Expr("stock + 1")).Error
}
