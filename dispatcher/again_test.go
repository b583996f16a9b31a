package dispatcher

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
	"github.com/duehook/duehook/internal/kit/strictjson"
)

// deep is an answer whose body is nested that deep.
func deep(levels int) string { return `{"body":` + deepBody(levels) + `}` }

func deepBody(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestArmedAgain(t *testing.T) {
	s := &sender{limits: job.Bounds{MaxBody: 300, MaxRounds: 3}, log: slog.New(slog.DiscardHandler)}
	text := job.Spec{Destination: "http://a.example", Body: []byte("old"), BodyForm: job.BodyText, ContentType: "text/plain", AgainBody: true}
	with := func(rounds int, body string) *job.Spec {
		next := text
		next.Loop = &job.Loop{Rounds: rounds, Wait: time.Minute}
		if body != "" {
			next.Body, next.BodyForm, next.ContentType = []byte(body), job.BodyJSON, "application/json"
			next.Loop.NewBody = true
		}
		return &next
	}
	none := *with(1, "x")
	none.Body, none.BodyForm, none.ContentType = nil, job.BodyNone, ""
	const isJSON = "application/json; charset=utf-8"
	for name, tt := range map[string]struct {
		rounds int // before
		answer contract.Answer
		kind   string
		want   *job.Spec // nil: the job is not armed again
		class  string
		failed bool
	}{
		"no body":          {0, contract.Answer{}, isJSON, with(1, ""), "", false},
		"text":             {1, contract.Answer{Body: []byte("OK")}, "text/plain", with(2, ""), "", false},
		"no type":          {0, contract.Answer{Body: []byte(`{"body":1}`)}, "", with(1, ""), "", false},
		"an object":        {2, contract.Answer{Body: []byte(" { \"bo\\u0064y\": {\"a\" : [1]} }\n")}, isJSON, with(3, `{"a" : [1]}`), "", false},
		"deep":             {0, contract.Answer{Body: []byte(deep(strictjson.MaxNesting - 1))}, isJSON, with(1, deepBody(strictjson.MaxNesting-1)), "", false},
		"too deep":         {0, contract.Answer{Body: []byte(deep(strictjson.MaxNesting))}, isJSON, nil, classAgainBody, true},
		"twice":            {0, contract.Answer{Body: []byte(`{"body":1,"body":2}`)}, isJSON, nil, classAgainBody, true},
		"another member":   {0, contract.Answer{Body: []byte(`{"body":1,"delay":2}`)}, isJSON, nil, classAgainBody, true},
		"more than one":    {0, contract.Answer{Body: []byte(`{"body":1} {}`)}, isJSON, nil, classAgainBody, true},
		"white space":      {0, contract.Answer{Body: []byte(" \n")}, isJSON, nil, classAgainBody, true},
		"another type":     {0, contract.Answer{Body: []byte(`{"body":"x"}`)}, "application/problem+json", with(1, `"x"`), "", false},
		"without body":     {0, contract.Answer{Body: []byte(`{"ok":true}`)}, isJSON, with(1, ""), "", false},
		"null":             {0, contract.Answer{Body: []byte(`{"body":null}`)}, isJSON, &none, "", false},
		"an array":         {0, contract.Answer{Body: []byte(`[]`)}, isJSON, nil, classAgainBody, true},
		"no value":         {0, contract.Answer{Body: []byte(`null`)}, isJSON, nil, classAgainBody, true},
		"no JSON":          {0, contract.Answer{Body: []byte(`{"body":}`)}, isJSON, nil, classAgainBody, true},
		"no UTF-8":         {0, contract.Answer{Body: []byte("{\"body\":\"\xff\"}")}, isJSON, nil, classAgainBody, true},
		"too large":        {0, contract.Answer{Body: []byte(`{"body":"` + strings.Repeat("x", 299) + `"}`)}, isJSON, nil, classTooLarge, true},
		"cut":              {0, contract.Answer{Body: []byte(`{"body":1}`), Cut: true}, isJSON, nil, classTooLarge, true},
		"broken":           {0, contract.Answer{Body: []byte(`{"body":1}`), Lost: classReset}, isJSON, nil, classReset, true},
		"too often":        {3, contract.Answer{}, isJSON, nil, classAgainLimit, false},
		"too often, by it": {3, contract.Answer{Body: []byte(`{"body":1}`)}, isJSON, nil, classAgainLimit, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := &job.Job{Spec: text}
			if tt.rounds > 0 {
				j.Spec.Loop = &job.Loop{Rounds: tt.rounds}
			}
			tt.answer.Header = http.Header{"Content-Type": {tt.kind}}
			o, class := s.armAgain(j, &tt.answer, time.Minute)
			if diff := cmp.Diff(tt.want, o.Again); diff != "" {
				t.Errorf("armed again (-want +got):\n%s", diff)
			}
			if class != tt.class || (o.Kind == job.OutcomeFailed) != tt.failed {
				t.Errorf("%v, class %q", o.Kind, class)
			}
		})
	}
	closed := &job.Job{Spec: text}
	closed.Spec.AgainBody = false
	for body, class := range map[string]string{`{"body":1}`: classAgainRefused, `{"body":null}`: classAgainRefused, `{"ok":1}`: ""} {
		a := contract.Answer{Body: []byte(body), Header: http.Header{"Content-Type": {isJSON}}}
		if o, got := s.armAgain(closed, &a, time.Minute); got != class || (o.Again == nil) != (class != "") || (o.Kind == job.OutcomeFailed) != (class != "") {
			t.Errorf("without again_body, %s: %+v, %q", body, o, got)
		}
	}
	callback := &job.Job{Spec: job.Spec{Reports: job.CallbackDelivered}}
	if o, class := s.armAgain(callback, &contract.Answer{Header: http.Header{}}, time.Minute); o.Again != nil || o.Kind != job.OutcomeDelivered || class != "" {
		t.Errorf("a callback: %+v, %q", o, class)
	}
}
