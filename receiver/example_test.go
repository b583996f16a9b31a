package receiver_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/duehook/duehook/receiver"
)

// What the example receives, and with which secret.
const (
	exampleSecret    = "whsec_YW4gZXhhbXBsZTsgbmV2ZXIgdXNlIGl0IGluIGVhcm4="
	exampleSignature = "v1,Yynm7yJ+tIk6mqHpP2bHfNDzosQmXiADmEIceYV+D50="
)

// exampleDelivery is a request as duehook makes it.
func exampleDelivery() *http.Request {
	req := httptest.NewRequest(http.MethodPost, "/hooks/timeout", strings.NewReader(body))
	req.Header.Set("webhook-id", "01KDWCJ2M00000000000000001")
	req.Header.Set("webhook-timestamp", "1767259800")
	req.Header.Set("webhook-signature", exampleSignature)
	req.Header.Set("Duehook-Topic", "order-timeout")
	req.Header.Set("Duehook-Job-Id", "order-8812")
	req.Header.Set("Duehook-Attempt", "1")
	return req
}

// exampleNow is the time at which the example was made; leave Options.Now out.
func exampleNow() time.Time { return time.Unix(1767259801, 0) }

func ExampleReceiver_Handler() {
	r, err := receiver.New(receiver.Options{Secrets: []string{exampleSecret}, Now: exampleNow})
	if err != nil {
		panic(err)
	}
	h := r.Handler(func(_ context.Context, d receiver.Delivery) error {
		fmt.Printf("%s %s: %s\n", d.Topic, d.JobID, d.Body)
		return nil
	})
	for range 2 {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, exampleDelivery())
		fmt.Println(answer.Code)
	}
	// Output:
	// order-timeout order-8812: {"order_id":8812}
	// 200
	// 200
}

// A function's error decides when, and whether, duehook comes again.
func ExampleRetryAfter() {
	r, err := receiver.New(receiver.Options{Secrets: []string{exampleSecret}, Now: exampleNow})
	if err != nil {
		panic(err)
	}
	h := r.Handler(func(context.Context, receiver.Delivery) error {
		return fmt.Errorf("the stock is being counted: %w", receiver.RetryAfter(10*time.Minute))
	})
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, exampleDelivery())
	fmt.Println(answer.Code, answer.Header().Get("Retry-After"))
	// Output: 503 600
}

// Those who answer by themselves need Verify alone.
func ExampleReceiver_Verify() {
	r, err := receiver.New(receiver.Options{Secrets: []string{exampleSecret}, Now: exampleNow})
	if err != nil {
		panic(err)
	}
	http.HandleFunc("/hooks/timeout", func(w http.ResponseWriter, req *http.Request) {
		d, err := r.Verify(req)
		if err != nil {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		fmt.Println(d.ID, len(d.Body))
	})
	http.DefaultServeMux.ServeHTTP(httptest.NewRecorder(), exampleDelivery())
	// Output: 01KDWCJ2M00000000000000001 17
}
