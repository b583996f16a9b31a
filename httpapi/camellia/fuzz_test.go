package camellia_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/camellia"
	"github.com/duehook/duehook/internal/testing/fronts"
)

// fuzzed are the calls for messages; a long poll reads what pullMsg does, and waits.
var fuzzed = []string{"sendMsg", "getMsg", "deleteMsg", "pullMsg", "ackMsg"}

// Whatever a client sends, the answer is one of the contract. A refused call changes nothing, and an
// accepted message can be looked up.
func FuzzCalls(f *testing.F) {
	const form = "application/x-www-form-urlencoded"
	f.Add(uint8(0), form, "", "topic=t&msgId=o1&msg=close+o1&delayMillis=1800000&ttlMillis=-1&maxRetry=-1")
	f.Add(uint8(0), form, "topic=%C3%BC%2F&msgId=a%00", "msg=x&delayMillis=0&ttlMillis=9223372036854775807&maxRetry=1000")
	f.Add(uint8(0), "multipart/form-data; boundary=x", "topic=t", "--x\r\nContent-Disposition: form-data; name=\"msg\"\r\n\r\n\xff\r\n--x\r\nContent-Disposition: form-data; name=\"delayMillis\"\r\n\r\n5\r\n--x--\r\n")
	f.Add(uint8(0), form, "", "topic=%FF&msg=x&delayMillis=0")
	f.Add(uint8(0), form, "", "topic=t&msgId=\xff&msg=x&delayMillis=0")
	f.Add(uint8(1), form, "topic=t&msgId=later", "")
	f.Add(uint8(2), form, "topic=t&msgId=later", "release=yes")
	f.Add(uint8(3), form, "topic=t", "batch=7&ackTimeoutMillis=-1")
	f.Add(uint8(4), form, "topic=t&msgId=now", "ack=on")
	f.Fuzz(func(t *testing.T, call uint8, contentType, query, body string) {
		p := fronts.NewParts(t, func(p *fronts.Parts) httpapi.Dialect {
			return camellia.New(camellia.Options{App: p.App, Pulls: p.Pulls, Monitor: camellia.NewMonitor(p.Clock), Clock: p.Clock})
		}, nil)
		for id, delay := range map[string]string{"now": "0", "later": "60000"} {
			p.Call(http.MethodPost, base+"sendMsg?topic=t&msg=x&msgId="+id+"&delayMillis="+delay, nil, "")
		}
		before, name := p.State(), fuzzed[int(call)%len(fuzzed)]
		status, text, ok := p.Call(http.MethodPost, base+name+"?"+query, http.Header{"Content-Type": {contentType}}, body)
		if !ok {
			return
		}
		type message struct {
			Topic, MsgID, Msg                    string
			ProduceTime, TriggerTime, ExpireTime int64
			MaxRetry, Retry, Status              int
		}
		var answer struct {
			Code     int
			DelayMsg message
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatalf("%d %s: %v", status, text, err)
		}
		switch {
		case status == http.StatusOK && answer.Code == 200:
		case status == http.StatusOK && (answer.Code == 400 || answer.Code == 404), status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge:
			if p.State() != before {
				t.Errorf("%s %s, but something was changed", name, text)
			}
			return
		default:
			t.Fatalf("%s: %d %s", name, status, text)
		}
		if m := answer.DelayMsg; name == "sendMsg" {
			var again struct{ DelayMsg message }
			q := url.Values{"topic": {m.Topic}, "msgId": {m.MsgID}}
			if _, text, _ := p.Call(http.MethodPost, base+"getMsg?"+q.Encode(), nil, ""); json.Unmarshal(text, &again) != nil || again.DelayMsg != m {
				t.Errorf("%+v was sent, %s was found", m, text)
			}
		}
	})
}
