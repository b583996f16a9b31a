// Receives duehook's webhooks.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/duehook/duehook/receiver"
)

func main() {
	r, err := receiver.New(receiver.Options{
		Secrets: strings.Split(os.Getenv("WEBHOOK_SECRETS"), ","), // two while the secret is being changed
	})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr())
	server := http.Server{Handler: r.Handler(handle), ReadTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}

// handle is called once for each webhook-id. Return receiver.Gone(),
// Abort(), RetryAfter(d) or Snooze(d) to steer what duehook does after a
// failure; after any other error it tries again at its next step.
func handle(_ context.Context, d receiver.Delivery) error {
	fmt.Printf("%s %s, attempt %d: %q\n", d.Topic, d.JobID, d.Attempt, d.Body)
	return nil
}
