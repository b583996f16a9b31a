package dispatcher

import (
	"errors"
	"testing"
	"time"

	"github.com/duehook/duehook/retrypolicy"
)

func TestOptionsValidate(t *testing.T) {
	ok := func(o Options) Options { o.Store = newFakeStore(); return o }
	for name, tt := range map[string]struct {
		o     Options
		lease bool
		valid bool
	}{
		"defaults":                   {o: ok(Options{}), valid: true},
		"no store":                   {o: Options{}},
		"long timeout":               {o: ok(Options{Timeout: time.Minute}), valid: true},
		"least margin":               {o: ok(Options{LeaseMargin: MinLeaseMargin}), valid: true},
		"margin too small":           {o: ok(Options{LeaseMargin: MinLeaseMargin - 1}), lease: true},
		"negative margin":            {o: ok(Options{LeaseMargin: -1}), lease: true},
		"least lease":                {o: ok(Options{Timeout: 10 * time.Second, Lease: 15 * time.Second}), valid: true},
		"lease too short":            {o: ok(Options{Timeout: 10 * time.Second, Lease: 15*time.Second - 1}), lease: true},
		"lease shorter than timeout": {o: ok(Options{Timeout: time.Minute, Lease: 20 * time.Second}), lease: true},
		"negative workers":           {o: ok(Options{Workers: -1})},
		"negative timeout":           {o: ok(Options{Timeout: -1, Lease: time.Minute})},
		"negative grace":             {o: ok(Options{Grace: -1})},
		"negative breaker time":      {o: ok(Options{BreakerOpen: -1})},
		"negative probes":            {o: ok(Options{BreakerProbes: -1})},
		"no breakers":                {o: ok(Options{BreakerFailures: -1}), valid: true},
		"bad policy":                 {o: ok(Options{Policy: retrypolicy.Policy{Steps: []time.Duration{-1}}})},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.o.Validate()
			if (err == nil) != tt.valid || errors.Is(err, ErrLease) != tt.lease {
				t.Errorf("%v", err)
			}
			if _, newErr := New(tt.o); (newErr == nil) != tt.valid {
				t.Errorf("New: %v", newErr)
			}
		})
	}
}
