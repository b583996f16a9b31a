package access

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/duehook/duehook/internal/job"
)

// Limits of a Rate.
const (
	maxRequests   = 1_000_000
	maxRateWindow = 24 * time.Hour
)

// Rate is a rate limit: a bucket of Requests tokens that fills evenly within Per. It allows
// a burst of Requests, and in the long run Requests per Per. Zero: no limit.
type Rate struct {
	Requests int
	Per      time.Duration // whole seconds
}

var errRate = errors.New(`must be requests/duration of up to 1000000 requests and whole seconds up to 1d, such as "100/1s" or "6000/m"`)

// ParseRate reads "100/1s". "100/s" is the same.
func ParseRate(s string) (Rate, error) {
	count, per, _ := strings.Cut(s, "/")
	if len(per) == 1 {
		per = "1" + per
	}
	requests, err := strconv.ParseUint(count, 10, 32)
	if err != nil || requests < 1 || requests > maxRequests {
		return Rate{}, errRate
	}
	window, err := job.ParseDuration(per)
	if err != nil || window < time.Second || window > maxRateWindow || window%time.Second != 0 {
		return Rate{}, errRate
	}
	return Rate{int(requests), window}, nil
}

// String returns the form of ParseRate; empty: no limit.
func (r Rate) String() string {
	if r == (Rate{}) {
		return ""
	}
	return fmt.Sprintf("%d/%s", r.Requests, job.FormatDuration(r.Per))
}

// MarshalText returns the form of String.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseRate.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}

func (r Rate) perSecond() float64 { return float64(r.Requests) / r.Per.Seconds() }

// limiter enforces the rate of one key. A nil limiter allows everything.
type limiter struct {
	rate   Rate
	bucket *rate.Limiter
}

func newLimiter(r Rate) *limiter {
	if r == (Rate{}) {
		return nil
	}
	return &limiter{r, rate.NewLimiter(rate.Limit(r.perSecond()), r.Requests)}
}

// take takes a token out of the bucket if there is one. now needs its monotonic reading,
// so that setting the clock has no effect.
func (l *limiter) take(now time.Time) Quota {
	if l == nil {
		return Quota{Allowed: true}
	}
	q := Quota{Rate: l.rate, Allowed: l.bucket.AllowN(now, 1)}
	// Concurrent requests may change the bucket in between: the figures are hints.
	tokens := max(l.bucket.TokensAt(now), 0)
	if q.Allowed {
		q.Remaining = int(tokens)
	}
	missing := math.Floor(tokens) + 1 - tokens
	q.More = time.Duration(math.Ceil(missing / l.rate.perSecond() * float64(time.Second)))
	return q
}

// Quota is the decision of a rate limit on one request.
type Quota struct {
	Rate    Rate // zero: no limit
	Allowed bool // this request is within the limit
	// Remaining is how many more requests may follow at once.
	Remaining int
	// More is the time until Remaining grows by one.
	More time.Duration
}

// policyName names the limit in the header fields.
const policyName = `"key"`

// SetHeaders sets RateLimit-Policy and RateLimit of
// draft-ietf-httpapi-ratelimit-headers-10, and Retry-After for a refused request. Without
// a limit it sets nothing.
func (q Quota) SetHeaders(h http.Header) {
	if q.Rate == (Rate{}) {
		return
	}
	more := int64(math.Ceil(q.More.Seconds()))
	h.Set("RateLimit-Policy", fmt.Sprintf("%s;q=%d;w=%d", policyName, q.Rate.Requests, int64(q.Rate.Per.Seconds())))
	h.Set("RateLimit", fmt.Sprintf("%s;r=%d;t=%d", policyName, q.Remaining, more))
	if !q.Allowed {
		h.Set("Retry-After", strconv.FormatInt(more, 10))
	}
}
