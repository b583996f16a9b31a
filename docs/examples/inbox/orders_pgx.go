package inbox

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// PlaceOrderPgx is PlaceOrder with pgx. A *pgxpool.Pool works, too.
func PlaceOrderPgx(ctx context.Context, db *pgx.Conn, order, total int64) error {
	row, err := timeout(order)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (id, total) VALUES ($1, $2)", order, total); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO duehook_inbox (request) VALUES ($1)", row)
		return err
	})
}
