package mykit_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/mykit"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/testing/fronts"
	"github.com/duehook/duehook/store"
)

// Whatever a client sends, the answer is one of the contract. A refused call changes nothing, and an
// accepted job is found by the id that the client got.
func FuzzCalls(f *testing.F) {
	f.Add(uint8(0), "", "application/json", `{"topic":"order","bizKey":"8812","delay":1800000,"body":"{\"order\":8812}"}`)
	f.Add(uint8(0), "", "application/json;charset=UTF-8", `{"topic":"order","id":"o 1/ü","subtopic":"vip","delay":"10","createTime":1767258000000,"ttl":12,"priority":3,"status":5}`)
	f.Add(uint8(0), "", "text/json", `{"topic":1,"delay":1e30,"createTime":-1,"body":null}`)
	f.Add(uint8(1), "jobId=there", "", "")
	f.Add(uint8(2), "jobId=there", "", "")
	f.Add(uint8(3), "jobId=%ff", "", "")
	calls := []string{"/push", "/delete", "/reStoreJob", "/finish"} // the others make operations
	f.Fuzz(func(t *testing.T, call uint8, query, contentType, body string) {
		p := fronts.NewParts(t, func(p *fronts.Parts) httpapi.Dialect {
			return mykit.New(mykit.Options{App: p.App, Clock: p.Clock})
		}, nil)
		h := http.Header{"Content-Type": {"application/json"}}
		p.Call(http.MethodPost, "/push", h, `{"topic":"order","id":"there","delay":60000}`)
		before, path, method := p.State(), calls[int(call)%len(calls)], http.MethodGet
		if path == "/push" {
			method = http.MethodPost
		}
		h.Set("Content-Type", contentType)
		status, text, ok := p.Call(method, path+"?"+query, h, body)
		if !ok {
			return
		}
		var answer struct {
			Success bool
			Code    int
			Message *string
			Data    string
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatalf("%d %s: %v", status, text, err)
		}
		known := []int{http.StatusOK, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}
		if !slices.Contains(known, status) || !answer.Success && (answer.Message == nil || *answer.Message == "") {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		if !answer.Success {
			if p.State() != before {
				t.Errorf("%s %s, but something was changed", path, text)
			}
			return
		}
		if path != "/push" {
			return
		}
		p.Call(http.MethodGet, "/delete?jobId="+url.QueryEscape(answer.Data), nil, "")
		page, err := p.App.List(t.Context(), store.Query{States: []job.State{job.Cancelled}, Limit: 10})
		if err != nil || len(page.Jobs) != 1 {
			t.Errorf("%q was pushed, %d jobs are found by it: %v", answer.Data, len(page.Jobs), err)
		}
	})
}
