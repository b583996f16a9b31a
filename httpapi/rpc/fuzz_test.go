package rpc_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/rpc"
	pb "github.com/duehook/duehook/httpapi/rpc/duehookv1"
	v1 "github.com/duehook/duehook/httpapi/v1"
	"github.com/duehook/duehook/internal/testing/fronts"
)

// Whatever a client sends, as JSON or as protobuf, the error is the client's and says what is wrong. A
// refused call changes nothing, and a registered job can be looked up.
func FuzzCalls(f *testing.F) {
	var methods []string
	for _, service := range []string{"Jobs", "Queue"} { // mykit's are those of its dialect
		all := pb.File_duehook_proto.Services().ByName(protoreflect.Name(service)).Methods()
		for i := range all.Len() {
			if name := string(all.Get(i).Name()); name != "Pull" { // it may wait
				methods = append(methods, service+"/"+name)
			}
		}
	}
	f.Add(uint8(0), true, `{"topic":"order","id":"o","pull":true,"delay":"1h","body":{"a":[1,null]},"labels":{"k":"v"}}`)
	f.Add(uint8(0), true, `{"url":"https://shop.example","bodyText":"x","retry":{"steps":["1s"],"limit":3},"at":"2026-01-01T10:00:00Z"}`)
	f.Add(uint8(0), false, "\n\x05order\x12\x01o")
	f.Add(uint8(1), true, `{"jobs":[{"topic":"a","pull":true},{"url":"ftp://x"}]}`)
	for i := range methods {
		f.Add(uint8(i), true, `{"topic":"t","id":"there","topics":["t"],"max":2,"lease":"30s","receipts":["x"],"limit":3,"state":["waiting"]}`)
		f.Add(uint8(i), false, "\n\x01t\x12\x05there")
	}
	f.Fuzz(func(t *testing.T, call uint8, text bool, body string) {
		p := fronts.NewParts(t, func(p *fronts.Parts) httpapi.Dialect {
			d, err := v1.New(v1.Options{App: p.App, Groups: p.Groups, Pulls: p.Pulls})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}, rpc.New)
		h := http.Header{"Content-Type": {"application/json"}}
		post := func(method, body string) (int, []byte) {
			status, answer, _ := p.Call(http.MethodPost, "/duehook.v1."+method, h, body)
			return status, answer
		}
		post("Jobs/Register", `{"topic":"t","id":"there","pull":true,"delay":"1h"}`)
		before, method := p.State(), methods[int(call)%len(methods)]
		if !text {
			h.Set("Content-Type", "application/proto")
		}
		status, answer := post(method, body)
		h.Set("Content-Type", "application/json")
		if status != http.StatusOK {
			var e struct{ Code, Message string }
			if json.Unmarshal(answer, &e) != nil || e.Code == "" || e.Code == "internal" || e.Code == "unknown" {
				t.Errorf("%s: %d %s", method, status, answer)
			}
			if p.State() != before {
				t.Errorf("%s: %d %s, but something was changed", method, status, answer)
			}
			return
		}
		var j struct{ Topic, ID string }
		if method == "Jobs/Register" && text && json.Unmarshal(answer, &j) == nil {
			key, _ := json.Marshal(map[string]string{"topic": j.Topic, "id": j.ID})
			if status, got := post("Jobs/Get", string(key)); status != http.StatusOK {
				t.Errorf("registered %s, then %d %s", answer, status, got)
			}
		}
	})
}
