package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/duehook/duehook/client"
)

// timeout is the row of the inbox that closes an order after 30 minutes.
func timeout(order int64) (string, error) {
	return client.InboxRow(client.Registration{
		Topic: "order-timeout",
		ID:    fmt.Sprint("order-", order),
		Delay: client.Duration(30 * time.Minute),
		URL:   "https://shop.example/hooks/timeout",
		Body:  map[string]int64{"order_id": order},
	})
}

// PlaceOrder writes the order and its timeout: both, or none. For MySQL, write ? instead of $1.
func PlaceOrder(ctx context.Context, db *sql.DB, order, total int64) error {
	row, err := timeout(order)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id, total) VALUES ($1, $2)", order, total); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO duehook_inbox (request) VALUES ($1)", row); err != nil {
		return err
	}
	return tx.Commit()
}
