// Package client calls the HTTP API of duehook. It needs the standard library only.
//
//	c, err := client.New("http://127.0.0.1:7788", client.WithToken(os.Getenv("DUEHOOK_TOKEN")))
//	job, err := c.Register(ctx, client.Registration{
//		Topic: "order-timeout", ID: "order-8812", URL: "https://shop.example/hooks/timeout",
//		Delay: client.Duration(30 * time.Minute), Body: map[string]int{"order_id": 8812},
//	})
//
// Calls that are safe to repeat are repeated with growing pauses if the connection breaks or the
// server is unavailable. Registering is safe: a registration without an id gets one.
//
// A call that the server refuses returns an *Error. Compare its code with errors.Is:
//
//	if errors.Is(err, client.ErrJobDead) { … }
//
// Fields of the API that this version does not know are ignored.
package client
