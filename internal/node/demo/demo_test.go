package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// definitions are the shipped ones, with changes: pairs of old and new text.
func definitions(t *testing.T, changes ...string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	replacer := strings.NewReplacer(changes...)
	for _, name := range []string{"order-timeout.json", "payment-notify.json"} {
		content, err := os.ReadFile("../../../testdata/demo/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: []byte(replacer.Replace(string(content)))}
	}
	return files
}

func TestDemo(t *testing.T) {
	var out bytes.Buffer
	if err := Run(t.Context(), Options{Jobs: definitions(t), Out: &out}); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		"00:30:00  duehook   calls the shop: order-1001 is still not paid, it is closed\n",
		"00:44:15  duehook   payment-7002  attempt 5  merchant says 500 \"database is down\"  again in 30m, at 01:14:15\n",
		"✓ payment-7003 climbed the ladder: 15s 3m 10m, each attempt at its time\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the demo does not show %q:\n%s", want, &out)
		}
	}
}

func TestDemoFailsWhenAnExpectationBreaks(t *testing.T) {
	for _, tc := range []struct {
		name    string
		changes []string
		want    string
	}{
		{
			"an order's job is due before it is paid",
			[]string{`"placed": "3m",`, `"placed": "0s",`, `"delay": "30m"`, `"delay": "1m"`},
			"✗ the jobs of paid orders were cancelled",
		},
		{"a job is refused", []string{`"id": "order-1001"`, `"id": "order 1001"`}, "✗ each order's job was registered"},
		{
			"a notification dies that should not",
			[]string{`"retry": {"steps": ["15s", "3m", "10m"], "limit": 3}`, `"retry": {"steps": ["15s", "3m", "10m"], "limit": 2}`},
			"✗ the job that ran out of steps became a dead letter",
		},
		{
			"the merchant takes the notification too soon",
			[]string{`"status": 503, "body": "restarting"`, `"status": 200, "body": "success"`},
			"✗ the log has each answer of the merchant",
		},
		{
			"a wait is not the step",
			[]string{`"retry": {"steps": ["15s", "3m", "10m"], "limit": 3}`, `"retry": {"steps": ["15s", "3m", "10m", "1h"], "limit": 3}`},
			"✗ the job that ran out of steps became a dead letter",
		},
		{"a body is lost", []string{`"body": {"event": "payment_timeout", "order_id": 1003}`, `"method": "PUT"`}, "✗ each delivery brought the body"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := Run(t.Context(), Options{Jobs: definitions(t, tc.changes...), Out: &out})
			if !errors.Is(err, ErrFailed) {
				t.Fatalf("got %v, want ErrFailed\n%s", err, &out)
			}
			if told := out.String(); !strings.Contains(told, tc.want) {
				t.Errorf("nothing tells %q:\n%s", tc.want, told)
			}
		})
	}
}

func TestDemoRefusesBadDefinitions(t *testing.T) {
	for name, changes := range map[string][]string{
		"unknown field": {`"placed"`, `"plcaed"`},
		"bad duration":  {`"paid": "6m"`, `"paid": "soon"`},
		"no orders":     {`"orders"`, `"orders": [], "orders_"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := Run(t.Context(), Options{Jobs: definitions(t, changes...), Out: new(bytes.Buffer)})
			if !errors.Is(err, ErrFailed) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDemoEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, Options{Jobs: definitions(t), Out: new(bytes.Buffer)}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
