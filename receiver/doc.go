// Package receiver helps to receive duehook's webhooks, and those of anybody
// else who signs as Standard Webhooks asks.
//
//	r, err := receiver.New(receiver.Options{Secrets: []string{os.Getenv("WEBHOOK_SECRET")}})
//	...
//	http.Handle("/hooks/timeout", r.Handler(func(ctx context.Context, d receiver.Delivery) error {
//		return closeOrder(ctx, d.Body)
//	}))
//
// [Receiver.Handler] refuses what is not signed with one of the secrets, sees to
// it that a job that was handled is not handled again, and answers duehook
// according to the error that the function returns. Those who want to do that
// themselves use [Receiver.Verify] alone.
//
// duehook delivers at least once: an answer can be lost, and then the same
// webhook-id comes again. Seen remembers the ids; where an effect must happen
// once whatever fails, write [Delivery].ID in the transaction that has the effect.
package receiver
