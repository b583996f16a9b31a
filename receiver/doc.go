// Package receiver receives webhooks of duehook and of other senders that sign
// by Standard Webhooks.
//
//	r, err := receiver.New(receiver.Options{Secrets: []string{os.Getenv("WEBHOOK_SECRET")}})
//	...
//	http.Handle("/hooks/timeout", r.Handler(func(ctx context.Context, d receiver.Delivery) error {
//		return closeOrder(ctx, d.Body)
//	}))
//
// [Receiver.Handler] refuses requests without a valid signature, calls the
// function once per webhook-id, and derives the answer from the returned error.
// [Receiver.Verify] only verifies.
//
// duehook delivers at least once: after a lost answer, the same webhook-id comes
// again. Seen remembers the ids. If an effect must happen exactly once, store
// [Delivery].ID in the transaction of the effect.
package receiver
