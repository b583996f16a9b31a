package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/duehook/duehook/job"
)

// receiverMark stands in job definitions for the address of the receiver.
const receiverMark = "{receiver}"

// definition is a job as it is registered.
type definition struct {
	Topic string          `json:"topic"`
	ID    string          `json:"id"`
	Delay duration        `json:"delay"`
	Body  json.RawMessage `json:"body"`
	Retry *struct {
		Steps []duration `json:"steps"`
	} `json:"retry"`

	raw string
}

func (d *definition) UnmarshalJSON(raw []byte) error {
	type plain definition
	if err := json.Unmarshal(raw, (*plain)(d)); err != nil {
		return err
	}
	d.raw = string(raw)
	return nil
}

// request is the body of the registration.
func (d *definition) request(receiverURL string) string {
	return strings.ReplaceAll(d.raw, receiverMark, receiverURL)
}

// steps is the job's ladder, or else the server's.
func (d *definition) steps(server []time.Duration) []time.Duration {
	if d.Retry == nil || d.Retry.Steps == nil {
		return server
	}
	own := make([]time.Duration, len(d.Retry.Steps))
	for i, s := range d.Retry.Steps {
		own[i] = time.Duration(s)
	}
	return own
}

// duration is a job's form of a duration in JSON.
type duration time.Duration

func (d *duration) UnmarshalJSON(raw []byte) error {
	var value any
	err := json.Unmarshal(raw, &value)
	var parsed time.Duration
	switch v := value.(type) {
	case string:
		parsed, err = job.ParseDuration(v)
	case float64:
		parsed, err = job.Seconds(v)
	default:
		err = errors.Join(err, errors.New("must be a number of seconds or a string"))
	}
	if err != nil {
		return fmt.Errorf("%s %w", raw, err)
	}
	*d = duration(parsed)
	return nil
}

// ordersFile is testdata/demo/order-timeout.json.
type ordersFile struct {
	Speed  float64 `json:"speed"` // of the clock
	Orders []struct {
		Placed duration   `json:"placed"` // from the start of the story
		Paid   *duration  `json:"paid"`   // never, when absent
		Job    definition `json:"job"`
	} `json:"orders"`
}

// paymentsFile is testdata/demo/payment-notify.json.
type paymentsFile struct {
	Speed    float64 `json:"speed"`
	Payments []struct {
		Made duration `json:"made"`
		// Answers are the merchant's first answers; after them it takes the
		// notification.
		Answers []answer `json:"answers"`
		// Replay: the job runs out of attempts and is replayed in the end.
		Replay bool       `json:"replay"`
		Job    definition `json:"job"`
	} `json:"payments"`
}

func readDefinitions[T any](files fs.FS, name string) (T, error) {
	var into T
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return into, fmt.Errorf("demo: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&into); err != nil {
		return into, fmt.Errorf("demo: %s: %w", name, err)
	}
	return into, nil
}
