package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/duehook/duehook/client"
)

// Print what is due until the process is told to stop.
func ExampleClient_Consume() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := client.New("http://127.0.0.1:7788", client.WithToken(os.Getenv("DUEHOOK_TOKEN")))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	err = c.Consume(ctx, "orders", func(ctx context.Context, j *client.LeasedJob) error {
		if len(j.Content()) == 0 {
			return &client.NackError{Err: errors.New("there is nothing to print"), Dead: true}
		}
		return print(ctx, j.Content())
	}, client.ConsumeOptions{
		Concurrency: 8,
		Lease:       30 * time.Second,
		Answered: func(j *client.LeasedJob, err error) {
			if errors.Is(err, client.ErrLeaseLost) {
				slog.Warn("an order may be printed twice", "id", j.Job.ID, "error", err)
			}
		},
		Failed: func(err error) { slog.Warn("duehook cannot be reached", "error", err) },
	})
	if err != nil { // the server refuses this consumer
		panic(err)
	}
}

func print(context.Context, []byte) error { return nil }

// Register a job in the transaction that writes the order.
func ExampleInboxRow() {
	row, err := client.InboxRow(client.Registration{
		Topic: "order-timeout", ID: "order-8812", URL: "https://shop.example/hooks/timeout", Delay: client.Duration(30 * time.Minute),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("INSERT INTO duehook_inbox (request) VALUES ($1) -- " + row)
	// Output:
	// INSERT INTO duehook_inbox (request) VALUES ($1) -- {"topic":"order-timeout","id":"order-8812","url":"https://shop.example/hooks/timeout","delay":"30m"}
}
