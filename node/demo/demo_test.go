package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// definitions are the shipped ones, with changes: pairs of old and new text.
func definitions(t *testing.T, changes ...string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	replacer := strings.NewReplacer(changes...)
	for _, name := range []string{"order-timeout.json", "payment-notify.json"} {
		content, err := os.ReadFile("../../testdata/demo/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: []byte(replacer.Replace(string(content)))}
	}
	return files
}

// patience is a limit that ends only runs that hang.
const patience = 10 * time.Minute

// fast makes the stories fly; only runs that are to fail can do with that.
var fast = []string{`"speed": 240`, `"speed": 2400`, `"speed": 600`, `"speed": 6000`}

func TestDemoFailsWhenAnExpectationBreaks(t *testing.T) {
	for _, tc := range []struct {
		name    string
		changes []string
		limit   time.Duration // long, unless it is what ends the run, wherever that is on a slow machine
		want    string
	}{
		{
			"an order's job is due before it is paid",
			[]string{`"placed": "3m",`, `"placed": "0s",`, `"delay": "30m"`, `"delay": "1m"`},
			patience,
			"✗ the jobs of paid orders were cancelled",
		},
		{
			"a job is refused",
			[]string{`"id": "order-1001"`, `"id": "order 1001"`},
			patience,
			"order 1001 was answered 422",
		},
		{
			"a notification dies that should not",
			[]string{`"retry": {"steps": ["15s", "3m", "10m"], "limit": 3}`, `"retry": {"steps": ["15s", "3m", "10m"], "limit": 2}`},
			15 * time.Second,
			"stopped after 15s, its limit",
		},
		{
			"the merchant is content too soon",
			[]string{`"answers": [],`, `"answers": [{"status": 200, "body": "Success "}],`},
			15 * time.Second,
			"stopped after 15s, its limit",
		},
		{
			"a wait is not the step",
			[]string{`"retry": {"steps": ["15s", "3m", "10m"], "limit": 3}`, `"retry": {"steps": ["15s", "3m", "10m", "1h"], "limit": 3}`},
			patience,
			"✗ the job that ran out of steps became a dead letter",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			jobs := definitions(t, append(tc.changes, fast...)...)
			err := Run(t.Context(), Options{Jobs: jobs, Out: &out, Limit: tc.limit})
			if !errors.Is(err, ErrFailed) {
				t.Fatalf("got %v, want ErrFailed\n%s", err, &out)
			}
			if told := out.String() + err.Error(); !strings.Contains(told, tc.want) {
				t.Errorf("nothing tells %q:\n%s", tc.want, told)
			}
		})
	}
}

func TestDemoRefusesBadDefinitions(t *testing.T) {
	for name, changes := range map[string][]string{
		"unknown field": {`"placed"`, `"plcaed"`},
		"bad duration":  {`"paid": "6m"`, `"paid": "soon"`},
		"no speed":      {`"speed": 240`, `"speed": 0`},
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
