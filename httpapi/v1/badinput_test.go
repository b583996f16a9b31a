package v1

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
)

// badFields are members that make a registration invalid when they are added
// to one with a URL, with the pointers that the answer has to name.
var badFields = []struct{ members, pointers string }{
	{`"colour":"blue"`, "/colour"},
	{`"Topic":"t"`, "/Topic"},
	{`"URL":"https://shop.example/hook"`, "/URL"},
	{`"":1`, "/"},
	{`"a/b~c":1`, "/a~1b~0c"},
	{`"x\u0041":1`, "/xA"},
	{`"x\ud800":1`, `/x\ud800`},
	{`"colour":1,"taste":2`, "/colour /taste"},
	{`"` + strings.Repeat("x", 100) + `":1`, "/" + strings.Repeat("x", 64) + "…"},
	{`"url":"https://shop.example/hook"`, "/url"},
	{`"ur\u006c":"https://shop.example/hook"`, "/url"},
	{`"id":"a","id":"a"`, "/id"},
	{`"id":null,"id":null`, "/id"},
	{`"body":1,"body":1`, "/body"},
	{`"id":1,"topic":2`, "/id /topic"},
	{`"colour":1,"delay":-1,"url":7`, "/colour /delay /url"},
	{`"colour":1,"topic":7,"id":"a b"`, "/colour /topic /id"},

	{`"topic":1`, "/topic"},
	{`"topic":true`, "/topic"},
	{`"topic":["t"]`, "/topic"},
	{`"topic":{"t":1}`, "/topic"},
	{`"topic":""`, "/topic"},
	{`"topic":" "`, "/topic"},
	{`"topic":"a b"`, "/topic"},
	{`"topic":"a/b"`, "/topic"},
	{`"topic":"{a}"`, "/topic"},
	{`"topic":"a|b"`, "/topic"},
	{`"topic":"½"`, "/topic"},
	{`"topic":"a\u0000"`, "/topic"},
	{`"topic":"a\nb"`, "/topic"},
	{`"topic":"."`, "/topic"},
	{`"topic":"` + strings.Repeat("t", 129) + `"`, "/topic"},
	{`"id":7`, "/id"},
	{`"id":""`, "/id"},
	{`"id":".."`, "/id"},
	{`"id":"a{b}"`, "/id"},
	{`"id":"a/b"`, "/id"},
	{`"id":"a%2Fb"`, "/id"},
	{`"id":"a b"`, "/id"},
	{`"id":"\ud83d\ude00"`, "/id"},
	{`"id":"\ud83d"`, "/id"},
	{`"id":"\ude00\ud83d"`, "/id"},
	{`"id":"` + strings.Repeat("i", 129) + `"`, "/id"},
	{`"order_key":8812`, "/order_key"},
	{`"order_key":""`, "/order_key"},
	{`"order_key":"a b"`, "/order_key"},
	{`"order_key":"` + strings.Repeat("b", 129) + `"`, "/order_key"},
	{`"biz_key":8812`, "/biz_key"},
	{`"biz_key":""`, "/biz_key"},
	{`"biz_key":"a b"`, "/biz_key"},
	{`"biz_key":"` + strings.Repeat("b", 129) + `"`, "/biz_key"},

	{`"method":1`, "/method"},
	{`"method":""`, "/method"},
	{`"method":"HEAD"`, "/method"},
	{`"method":"OPTIONS"`, "/method"},
	{`"method":"post"`, "/method"},

	{`"delay":true`, "/delay"},
	{`"delay":[]`, "/delay"},
	{`"delay":{}`, "/delay"},
	{`"delay":""`, "/delay"},
	{`"delay":"soon"`, "/delay"},
	{`"delay":"30"`, "/delay"},
	{`"delay":"-5s"`, "/delay"},
	{`"delay":-1`, "/delay"},
	{`"delay":1.5`, "/delay"},
	{`"delay":1e300`, "/delay"},
	{`"delay":99999999999999999999`, "/delay"},
	{`"delay":31622401`, "/delay"},
	{`"delay":"366d1s"`, "/delay"},
	{`"delay":"99999999999999999999h"`, "/delay"},
	{`"delay":"1ns"`, "/delay"},
	{`"delay":"1h1h"`, "/delay"},
	{`"delay":"1s1h"`, "/delay"},
	{`"delay":"P1Y"`, "/delay"},
	{`"delay":"P1M"`, "/delay"},
	{`"delay":"PT"`, "/delay"},
	{`"spread":-1`, "/spread"},
	{`"spread":"25h"`, "/spread"},
	{`"spread":"soon"`, "/spread"},
	{`"count":5`, "/count"},
	{`"count":{}`, "/count/target"},
	{`"count":{"target":0}`, "/count/target"},
	{`"count":{"target":1000000001}`, "/count/target"},
	{`"count":{"target":1.5}`, "/count/target"},
	{`"count":{"target":"5"}`, "/count/target"},
	{`"count":{"target":5,"at_deadline":"wait"}`, "/count/at_deadline"},
	{`"count":{"target":5,"goal":5}`, "/count/goal"},
	{`"at":176725800`, "/at"},
	{`"at":17672580000`, "/at"},
	{`"at":1767258000.5`, "/at"},
	{`"at":{}`, "/at"},
	{`"at":""`, "/at"},
	{`"at":"tomorrow"`, "/at"},
	{`"at":"2026-01-01"`, "/at"},
	{`"at":"2026-01-01T10:00:00"`, "/at"},
	{`"at":"2026-13-01T10:00:00Z"`, "/at"},
	{`"at":"2026-01-01T10:00:00+99:00"`, "/at"},
	{`"at":"2027-01-02T10:00:01Z"`, "/at"},
	{`"at":"9999-12-31T23:59:59Z"`, "/at"},
	{`"at":"2026-01-01T10:00:00Z","delay":1`, "/at"},

	{`"body_text":1`, "/body_text"},
	{`"body_text":{}`, "/body_text"},
	{`"body_text":"\ud800"`, "/body_text"},
	{`"body_base64":1`, "/body_base64"},
	{`"body_base64":"!"`, "/body_base64"},
	{`"body_base64":"YQ"`, "/body_base64"},
	{`"body_base64":"YR=="`, "/body_base64"},
	{`"body_base64":"Y\nQ=="`, "/body_base64"},
	{`"body_base64":"_-__"`, "/body_base64"},
	{`"body":1,"body_text":"a"`, "/body_text"},
	{`"body":1,"body_base64":"YQ=="`, "/body_base64"},
	{`"body":1,"body_text":"a","body_base64":"YQ=="`, "/body_text /body_base64"},
	{`"content_type":"text/plain"`, "/content_type"},
	{`"body":1,"content_type":1`, "/content_type"},
	{`"body":1,"content_type":""`, "/content_type"},
	{`"body":1,"content_type":"json"`, "/content_type"},
	{`"body":1,"content_type":"text/plain\r\nx: y"`, "/content_type"},
	{`"body":1,"content_type":"` + strings.Repeat("t", 200) + "/" + strings.Repeat("t", 100) + `"`, "/content_type"},

	{`"headers":[]`, "/headers"},
	{`"headers":"x-a: 1"`, "/headers"},
	{`"headers":{"x-a":1}`, "/headers/x-a"},
	{`"headers":{"x-a":null}`, "/headers/x-a"},
	{`"headers":{"x-a":["1"]}`, "/headers/x-a"},
	{`"headers":{"x-a":"1","x-a":"1"}`, "/headers/x-a"},
	{`"headers":{"x-a":"1","X-A":"2"}`, "/headers/x-a"},
	{`"headers":{"":"1"}`, "/headers/"},
	{`"headers":{"x a":"1"}`, "/headers/x a"},
	{`"headers":{"x/a":"1"}`, "/headers/x~1a"},
	{`"headers":{"x-ä":"1"}`, "/headers/x-ä"},
	{`"headers":{"x-a":"1\r\nx-b: 2"}`, "/headers/x-a"},
	{`"headers":{"x-a":"1\u0000"}`, "/headers/x-a"},
	{`"headers":{"x-a":"\ud800"}`, "/headers/x-a"},
	{`"headers":{"x\ud800":"1"}`, "/headers"},
	{`"headers":{"connection":"close"}`, "/headers/connection"},
	{`"headers":{"Transfer-Encoding":"chunked"}`, "/headers/Transfer-Encoding"},
	{`"headers":{"Host":"evil.example"}`, "/headers/Host"},
	{`"headers":{"content-length":"3"}`, "/headers/content-length"},
	{`"headers":{"content-type":"text/plain"}`, "/headers/content-type"},
	{`"headers":{"webhook-id":"x"}`, "/headers/webhook-id"},
	{`"headers":{"duehook-attempt":"9"}`, "/headers/duehook-attempt"},
	{`"headers":{"proxy-authorization":"x"}`, "/headers/proxy-authorization"},
	{`"headers":{"traceparent":"x"}`, "/headers/traceparent"},
	{`"headers":{"x-a":"` + strings.Repeat("v", 4097) + `"}`, "/headers/x-a"},
	{`"headers":{"` + strings.Repeat("n", 129) + `":"v"}`, "/headers/" + strings.Repeat("n", 128)},
	{`"headers":{` + manyHeaders(65) + `}`, "/headers"},

	{`"retry":1`, "/retry"},
	{`"retry":[]`, "/retry"},
	{`"retry":{"stages":[]}`, "/retry/stages"},
	{`"retry":{"limit":1,"limit":1}`, "/retry/limit"},
	{`"retry":{"limit":"3"}`, "/retry/limit"},
	{`"retry":{"limit":1.5}`, "/retry/limit"},
	{`"retry":{"limit":-1}`, "/retry/limit"},
	{`"retry":{"limit":1001}`, "/retry/limit"},
	{`"retry":{"limit":99999999999999999999}`, "/retry/limit"},
	{`"retry":{"limit":1e999}`, "/retry/limit"},
	{`"retry":{"steps":"15s"}`, "/retry/steps"},
	{`"retry":{"steps":{}}`, "/retry/steps"},
	{`"retry":{"steps":[]}`, "/retry/steps"},
	{`"retry":{"steps":[null]}`, "/retry/steps/0"},
	{`"retry":{"steps":["15s",true,"3m",[1]]}`, "/retry/steps/1 /retry/steps/3"},
	{`"retry":{"steps":["0s"]}`, "/retry/steps/0"},
	{`"retry":{"steps":["31d"]}`, "/retry/steps/0"},
	{`"retry":{"steps":[` + strings.Repeat(`1,`, 64) + `1]}`, "/retry/steps"},
	{`"timeout":"soon"`, "/timeout"},
	{`"timeout":0`, "/timeout"},
	{`"timeout":"99ms"`, "/timeout"},
	{`"timeout":"61s"`, "/timeout"},
	{`"timeout":[10]`, "/timeout"},
	{`"ttl":0`, "/ttl"},
	{`"ttl":"0"`, "/ttl"},
	{`"ttl":"733d"`, "/ttl"},
	{`"ttl":false`, "/ttl"},
	{`"expect":"success"`, "/expect"},
	{`"expect":{"status":200}`, "/expect/status"},
	{`"expect":{"body":1}`, "/expect/body"},
	{`"expect":{"body":" "}`, "/expect/body"},
	{`"expect":{"body":"` + strings.Repeat("s", 1025) + `"}`, "/expect/body"},
	{`"priority":0`, "/priority"},
	{`"priority":10`, "/priority"},
	{`"priority":-1`, "/priority"},
	{`"priority":5.5`, "/priority"},
	{`"priority":"high"`, "/priority"},
	{`"priority":1e99`, "/priority"},
	{`"on_conflict":1`, "/on_conflict"},
	{`"on_conflict":""`, "/on_conflict"},
	{`"on_conflict":"overwrite"`, "/on_conflict"},
}

func manyHeaders(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = `"x-` + strconv.Itoa(i) + `":"v"`
	}
	return strings.Join(list, ",")
}

// badURLs are no callback URLs, as JSON.
var badURLs = []string{
	`null`, `1`, `{}`, `[]`, `""`, `" "`, `"shop.example/hook"`, `"/hook"`, `"//shop.example/hook"`,
	`"ftp://shop.example/"`, `"file:///etc/passwd"`, `"javascript:alert(1)"`, `"gopher://shop.example/"`,
	`"https://"`, `"https:///hook"`, `"https://user@shop.example/"`, `"https://user:secret@shop.example/"`,
	`"https://shop.example:0/"`, `"https://shop.example:65536/"`, `"https://shop.example:port/"`, `"https://shop.example:/"`,
	`"https://shop.example/#part"`, `"https://shop example/"`, `"https://shop.example/a b"`, `"https://shop.example/ä"`,
	`"https://shöp.example/"`, `"https://shop.example/\n"`, `"https://shop.example/\u0000"`, `"https://[::1/"`,
	`"https://[fe80::1%25eth0]/"`, `"https://0177.0.0.1/"`, `"https://127.1/"`, `"https://2130706433/"`,
	`"https://0x7f000001/"`, `"https://-shop.example/"`, `"https://shop..example/"`, `"https://shop.example/%zz"`,
	`"https://` + strings.Repeat("a", 64) + `.example/"`, `"https://shop.example/` + strings.Repeat("a", 2048) + `"`,
}

// malformedBodies are no JSON texts, or none that is taken.
var malformedBodies = []string{
	` `, "\n", `{`, `}`, `{"url":`, `{"url":"https://shop.example/hook"`, `{"url":"https://shop.example/hook",}`,
	`{url:"https://shop.example/hook"}`, `{'url':1}`, `{"url":"https://shop.example/hook"} x`,
	`{"url":"https://shop.example/hook"}{}`, `{"url":"https://shop.example/hook"}]`, `{"delay":01}`, `{"delay":1.}`,
	`{"delay":+1}`, `{"delay":NaN}`, `{"delay":Infinity}`, `{"delay":0x10}`, `{"id":"a` + "\n" + `"}`, `{"id":"\x41"}`,
	`{"id":"\u00g0"}`, `{"id":tru}`, `{"id":nul}`, `{"id" "a"}`, `{"id":"a" "b"}`, `// comment` + "\n{}", `{/**/}`,
	"\ufeff{}", "{\"id\":\"\xff\"}", "{\"body\":\"\xc3\x28\"}", "{\"\xff\":1}", "{\"body\":\"\xed\xa0\x80\"}", "\xff\xfe{\x00}\x00",
	strings.Repeat("[", 10_000), strings.Repeat(`{"body":`, 200) + "1" + strings.Repeat("}", 200),
	`{"url":"https://shop.example/hook","body":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`,
}

type badCall struct {
	method, target, body string
	headers              []string
	code                 httpapi.Code
	pointers             string
}

func badCalls() []badCall {
	const jobs, one = "/v1/jobs", "/v1/jobs/t/there"
	const good = `{"url":"https://shop.example/hook"}`
	var all []badCall
	add := func(code httpapi.Code, pointers, method, target, body string, headers ...string) {
		all = append(all, badCall{method, target, body, headers, code, pointers})
	}
	for _, f := range badFields {
		add(httpapi.CodeInvalidRequest, f.pointers, "POST", jobs, `{"url":"https://shop.example/hook",`+f.members+`}`)
	}
	for _, url := range badURLs {
		add(httpapi.CodeInvalidRequest, "/url", "POST", jobs, `{"url":`+url+`}`)
		if url != "null" {
			add(httpapi.CodeInvalidRequest, "/url", "PATCH", one, `{"url":`+url+`}`)
		}
	}
	for _, body := range malformedBodies {
		add(httpapi.CodeMalformedJSON, "", "POST", jobs, body)
		add(httpapi.CodeMalformedJSON, "", "PATCH", one, body)
		add(httpapi.CodeMalformedJSON, "", "POST", jobs+"/batch", body)
	}
	for _, body := range []string{`null`, `1`, `"x"`, `[]`, `true`} {
		add(httpapi.CodeInvalidRequest, "", "POST", jobs, body)
		add(httpapi.CodeInvalidRequest, "", "PATCH", one, body)
		add(httpapi.CodeInvalidRequest, "", "POST", jobs+"/batch", body)
		add(httpapi.CodeInvalidRequest, "", "POST", one+"/run", body)
	}
	for _, field := range []string{"topic", "id", "method", "on_conflict"} {
		add(httpapi.CodeInvalidRequest, "/"+field, "PATCH", one, `{"`+field+`":"x"}`)
	}
	add(httpapi.CodeInvalidRequest, "/timeout", "PATCH", one, `{"timeout":"5h"}`)
	add(httpapi.CodeInvalidRequest, "/expect/body", "PATCH", one, `{"expect":{"body":" "}}`)
	add(httpapi.CodeInvalidRequest, "/biz_key", "PATCH", one, `{"biz_key":"a b"}`)
	add(httpapi.CodeInvalidRequest, "/order_key", "PATCH", one, `{"order_key":"other"}`)
	add(httpapi.CodeInvalidRequest, "/state", "PATCH", one, `{"state":"dead"}`)
	add(httpapi.CodeInvalidRequest, "", "PATCH", one, `{}`)
	add(httpapi.CodeInvalidRequest, "", "PATCH", one, `{"delay":null}`)
	add(httpapi.CodeInvalidRequest, "/delay", "PATCH", one, `{"delay":"soon"}`)
	add(httpapi.CodeInvalidRequest, "/ttl", "PATCH", one, `{"ttl":-1,"url":"https://shop.example/other"}`)
	add(httpapi.CodeInvalidRequest, "/content_type", "PATCH", one, `{"content_type":"text/plain"}`)
	add(httpapi.CodeInvalidRequest, "/url", "POST", jobs, `{}`)

	add(httpapi.CodeInvalidRequest, "/jobs", "POST", jobs+"/batch", `{}`)
	add(httpapi.CodeInvalidRequest, "/jobs", "POST", jobs+"/batch", `{"jobs":null}`)
	add(httpapi.CodeInvalidRequest, "/jobs", "POST", jobs+"/batch", `{"jobs":[]}`)
	add(httpapi.CodeInvalidRequest, "/jobs", "POST", jobs+"/batch", `{"jobs":{}}`)
	add(httpapi.CodeInvalidRequest, "/jobs", "POST", jobs+"/batch", `{"jobs":[`+strings.Repeat(good+",", 1000)+good+`]}`)
	add(httpapi.CodeInvalidRequest, "/atomic", "POST", jobs+"/batch", `{"jobs":[`+good+`],"atomic":true}`)
	add(httpapi.CodeInvalidRequest, "/jobs", "POST", jobs+"/batch", `{"jobs":[`+good+`],"jobs":[`+good+`]}`)
	add(httpapi.CodeInvalidRequest, "Idempotency-Key", "POST", jobs+"/batch", `{"jobs":[`+good+`]}`, "Idempotency-Key", "a")

	for _, key := range []string{"a b", "a/b", "{}", `""`, `"a`, `".."`, "½", strings.Repeat("k", 129), `"a\"`, `"a\b"`, `"a"b`, `"a\"b"`, `a"`} {
		add(httpapi.CodeInvalidRequest, "Idempotency-Key", "POST", jobs, good, "Idempotency-Key", key)
	}
	add(httpapi.CodeInvalidRequest, "Idempotency-Key", "POST", jobs, good, "Idempotency-Key", "a", "Idempotency-Key", "a")
	add(httpapi.CodeInvalidRequest, "/id", "POST", jobs, `{"url":"https://shop.example/hook","id":"a"}`, "Idempotency-Key", "k")
	add(httpapi.CodeInvalidRequest, "/on_conflict", "POST", jobs, `{"url":"https://shop.example/hook","on_conflict":"ignore"}`, "Idempotency-Key", "k")

	for _, match := range []string{" , ", "a", `"a`, `a"`, `"a" "b"`, `w/"a"`, `*, "a"`, `"a",*`, `"a b"`, `W/"a`} {
		add(httpapi.CodeInvalidRequest, "If-Match", "DELETE", one, "", "If-Match", match)
		add(httpapi.CodeInvalidRequest, "If-Match", "PATCH", one, `{"delay":1}`, "If-Match", match)
	}

	for _, target := range []string{jobs, jobs + "/batch", one + "/run", one + "/replay"} {
		for _, mediaType := range []string{"", "text/plain", "application/json, text/plain", "application/x-www-form-urlencoded", "application/merge-patch+json", "application/json; charset=latin1", "application/json; charset", "multipart/form-data; boundary=x", "json"} {
			add(httpapi.CodeUnsupportedMediaType, "", "POST", target, good, "Content-Type", mediaType)
		}
		add(httpapi.CodeUnsupportedMediaType, "", "POST", target, good, "Content-Encoding", "gzip")
		add(httpapi.CodeUnsupportedMediaType, "", "POST", target, good, "Content-Encoding", "identity", "Content-Encoding", "gzip")
		add(httpapi.CodeUnsupportedMediaType, "", "POST", target, good, "Content-Type", "application/json", "Content-Type", "text/plain")
	}
	return append(all, badTargets(one)...)
}

func badTargets(one string) []badCall {
	var all []badCall
	add := func(code httpapi.Code, pointers, method, target string) {
		all = append(all, badCall{method: method, target: target, code: code, pointers: pointers})
	}
	for query, pointers := range map[string]string{
		"colour=blue": "?colour", "Topic=t": "?Topic", "topic=t&topic=u": "?topic", "label=a:1": "?label", "limit=1&limit=1": "?limit",
		"topic=": "?topic", "topic=a%20b": "?topic", "topic=a%2Fb": "?topic", "topic={t}": "?topic",
		"order_key=": "?order_key", "biz_key=": "?biz_key", "biz_key=%00": "?biz_key", "biz_key=%ff": "?biz_key",
		"state=": "?state", "state=WAITING": "?state", "state=done": "?state", "state=0": "?state",
		"state=dead,": "?state", "state=,dead": "?state", "state=dead,done": "?state", "topic=a,b": "?topic", "labels=a:1,b": "?labels",
		"topics=x&limit=0&state=foo": "?topics ?state ?limit", "limit=1&limit=0&state=foo&tpic=t": "?tpic ?state ?limit",
		"state=dead&state=": "?state", "state=dead&state=done": "?state",
		"endpoint=": "?endpoint", "endpoint=shop.example": "?endpoint", "endpoint=ftp://shop.example": "?endpoint", "endpoint=http://a&endpoint=http://b": "?endpoint",
		"labels=": "?labels", "labels=shop": "?labels", "labels=Shop:7": "?labels", "labels=:7": "?labels", "labels=a:1&labels=b": "?labels", "labels=a:%0A": "?labels", "labels=a:%FF": "?labels",
		"labels=a:1" + strings.Repeat("&labels=a:1", 8): "?labels",
		"priority=": "?priority", "priority=0": "?priority", "priority=10": "?priority", "priority=high": "?priority", "priority=1&priority=2": "?priority",
		"reason=": "?reason", "reason=a%20b": "?reason", "reason=" + strings.Repeat("x", 129): "?reason", "reason=a&reason=b": "?reason",
		"due_from=": "?due_from", "due_from=now": "?due_from", "due_from=2026-01-01": "?due_from", "due_to=176725800": "?due_to", "due_to=17672580000": "?due_to", "due_to=0x6955a000": "?due_to", "due_to=Infinity": "?due_to", "due_to=2026-01-01T09:00:00": "?due_to",
		"created_from=": "?created_from", "created_from=now": "?created_from", "created_to=1767258000.5": "?created_to",
		"topic=t&id=": "?id", "topic=t&id=a%20b": "?id", "topic=t&id=a&id=b": "?id",
		"order=": "?order", "order=due": "?order", "topic=t&order=due": "?order",
		"topic=t&state=dead&order=ended": "?order", "topic=t&state=waiting&order=created": "?order", "topic=t&state=dead&order=-due": "?order",
		"topic=t&order=-ended": "?order", "topic=t&state=dead&state=waiting&order=-ended": "?order",
		"uid=": "?uid", "uid=a": "?uid", "uid=01KDWCJ2M0000000000000000U": "?uid", "uid=81KDWCJ2M00000000000000000": "?uid",
		"limit=": "?limit", "limit=0": "?limit", "limit=-1": "?limit", "limit=1001": "?limit", "limit=ten": "?limit",
		"limit=1.5": "?limit", "limit=99999999999999999999": "?limit", "limit=%201": "?limit",
		"cursor=": "?cursor", "cursor=made-up": "?cursor", "cursor=%00": "?cursor", "cursor=AAAA": "?cursor",
		"%zz": "?", "a;b": "?", "limit=%": "?", "=1": "?",
	} {
		add(httpapi.CodeInvalidRequest, pointers, "GET", "/v1/jobs?"+query)
	}
	for query, pointer := range map[string]string{
		"topic=": "?topic", "limit=0": "?limit", "cursor=": "?cursor", "cursor=AAAA": "?cursor", "state=dead": "?state",
	} {
		add(httpapi.CodeInvalidRequest, pointer, "GET", "/v1/dead?"+query)
	}
	for query, pointer := range map[string]string{
		"q=": "?q", "q=a%20b": "?q", "q=a&q=b": "?q", "limit=0": "?limit", "limit=1001": "?limit", "cursor=": "?cursor", "cursor=AAAA": "?cursor",
	} {
		add(httpapi.CodeInvalidRequest, pointer, "GET", "/v1/topics?"+query)
	}
	for _, path := range []string{one, one + "/attempts", "/v1/topics", "/v1/topics/t"} {
		add(httpapi.CodeInvalidRequest, "?pretty", "GET", path+"?pretty=1")
	}
	for part, pointer := range map[string]string{
		"/a%20b/there": "/topic", "/%7Bt%7D/there": "/topic", "/a%2Fb/there": "/topic", "//there": "/topic",
		"/%2E%2E/there": "/topic", "/t/a%20b": "/id", "/t/a%2fb": "/id", "/t/%00": "/id", "/t/%FF": "/id",
		"/t/%252e": "/id", "/t/%C2%BD": "/id", "/t/" + strings.Repeat("i", 129): "/id", "/" + strings.Repeat("t", 129) + "/there": "/topic",
	} {
		for _, method := range []string{"GET", "DELETE", "PATCH"} {
			add(httpapi.CodeInvalidRequest, pointer, method, "/v1/jobs"+part)
		}
		add(httpapi.CodeInvalidRequest, pointer, "POST", "/v1/jobs"+part+"/run")
		add(httpapi.CodeInvalidRequest, pointer, "GET", "/v1/jobs"+part+"/attempts")
	}
	add(httpapi.CodeInvalidRequest, "/topic", "GET", "/v1/topics/a%2Fb")
	add(httpapi.CodeInvalidRequest, "/topic", "GET", "/v1/topics/%7B%7D")
	for _, target := range []string{"/", "/v1", "/v1/", "/v2/jobs", "/v1/job", "/v1/jobs/", "/v1/jobs/t", one + "/", one + "/runs", one + "/run/now", "/v1/topics/", "/v1/topics/t/u", "/V1/jobs", "/livez/"} {
		add(httpapi.CodeNotFound, "", "GET", target)
	}
	for _, call := range []string{"PUT /v1/jobs", "DELETE /v1/jobs", "GET /v1/jobs/batch", "POST " + one, "PUT " + one, "GET " + one + "/run", "DELETE " + one + "/attempts", "POST /v1/topics", "PATCH /v1/topics", "POST /livez", "BREW /v1/jobs"} {
		method, target, _ := strings.Cut(call, " ")
		add(httpapi.CodeMethodNotAllowed, "", method, target)
	}
	return all
}

// TestBadInput sends everything that is wrong in one way or another. Each call
// gets its documented error, which names the field, and changes nothing.
func TestBadInput(t *testing.T) {
	a := newAPI(t)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"there","delay":"1h"}`)
	before := a.held()
	calls := badCalls()
	for _, call := range calls {
		got := a.call(call.method, call.target, call.body, call.headers...)
		p := decodeProblem(got)
		if p.Code != call.code.Name || got.Code != call.code.Status {
			t.Errorf("%s %s %s: got %d %s, want %d %s", call.method, call.target, httpapi.Shorten(call.body), got.Code, got.Body, call.code.Status, call.code.Name)
		}
		pointers := make([]string, len(p.Errors))
		for i, e := range p.Errors {
			pointers[i] = e.Pointer
			if e.Message == "" {
				t.Errorf("%s %s %s: no message for %s", call.method, call.target, httpapi.Shorten(call.body), e.Pointer)
			}
		}
		if got := strings.Join(pointers, " "); got != call.pointers {
			t.Errorf("%s %s %s: got the pointers %q, want %q", call.method, call.target, httpapi.Shorten(call.body), got, call.pointers)
		}
		if p.Detail == "" {
			t.Errorf("%s %s: no detail", call.method, call.target)
		}
	}
	if diff := cmp.Diff(before, a.held()); diff != "" {
		t.Errorf("bad input changed the store:\n%s", diff)
	}
	if len(calls) < 400 {
		t.Errorf("only %d bad calls", len(calls))
	}
}

func TestBodiesOverTheLimits(t *testing.T) {
	a := newAPI(t, func(o *testOptions) { o.Bounds.MaxBody, o.MaxBatchBytes = 1000, 20_000 })
	fits, over := strings.Repeat("x", 998), strings.Repeat("x", 999)
	a.want(201, "POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"fits","body":"`+fits+`"}`)
	before := a.held()
	for _, body := range []string{
		`{"url":"https://shop.example/hook","body":"` + over + `"}`,
		`{"url":"https://shop.example/hook","body_text":"` + over + `xx"}`,
		`{"url":"https://shop.example/hook","body_base64":"` + strings.Repeat("AAAA", 334) + `"}`,
		`{"url":"https://shop.example/hook"` + strings.Repeat(" ", 2*1000+64<<10) + `}`,
	} {
		a.wantProblem(httpapi.CodeBodyTooLarge, "POST", "/v1/jobs", body)
	}
	a.wantProblem(httpapi.CodeBodyTooLarge, "PATCH", "/v1/jobs/t/fits", `{"body":"`+over+`"}`)
	a.wantProblem(httpapi.CodeBodyTooLarge, "POST", "/v1/jobs/t/fits/run", `{`+strings.Repeat(" ", 2000)+`}`)
	a.wantProblem(httpapi.CodeBodyTooLarge, "POST", "/v1/jobs/batch", `{"jobs":[`+strings.Repeat(" ", 20_000)+`]}`)
	results := a.want(200, "POST", "/v1/jobs/batch", `{"jobs":[{"url":"https://shop.example/hook","body":"`+over+`"}]}`)
	if status := object(results["results"].([]any)[0])["status"]; status != 413.0 {
		t.Errorf("in a batch: status %v, want 413", status)
	}
	if diff := cmp.Diff(before, a.held()); diff != "" {
		t.Errorf("a body over the limit changed the store:\n%s", diff)
	}
}

// A body without a declared length is cut off all the same.
func TestUndeclaredLengths(t *testing.T) {
	a := newAPI(t, func(o *testOptions) { o.Bounds.MaxBody = 1000 })
	send := func(method, target, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.ContentLength = -1
		r.Header.Set("Content-Type", "application/json")
		return a.do(r, []byte(body))
	}
	for _, c := range []struct {
		method, target, body string
		status               int
	}{
		{"POST", "/v1/jobs", `{"url":"https://shop.example/hook","topic":"t","id":"a","delay":60}`, http.StatusCreated},
		{"POST", "/v1/jobs", "", http.StatusBadRequest},
		{"POST", "/v1/jobs", `{"url":"` + strings.Repeat("x", 100_000), http.StatusRequestEntityTooLarge},
		{"POST", "/v1/jobs/t/a/run", "", http.StatusOK},
		{"POST", "/v1/jobs/t/a/run", "{}", http.StatusOK},
		{"GET", "/v1/jobs", "", http.StatusOK},
		{"GET", "/v1/jobs", "{}", http.StatusUnprocessableEntity},
		{"DELETE", "/v1/jobs/t/a", `{"a":1}`, http.StatusUnprocessableEntity},
		{"DELETE", "/v1/jobs/t/a", "{}", http.StatusOK},
	} {
		if got := send(c.method, c.target, c.body); got.Code != c.status {
			t.Errorf("%s %s %s: got %d, want %d: %s", c.method, c.target, httpapi.Shorten(c.body), got.Code, c.status, got.Body)
		}
	}
}

// A name that is misspelt is told beside the one that may be meant.
func TestMisspeltNames(t *testing.T) {
	a := newAPI(t)
	for _, tt := range []struct{ method, path, body, pointer, meant string }{
		{"POST", "/v1/jobs", `{"url":"https://shop.example/hook","dealy":60}`, "/dealy", "delay"},
		{"POST", "/v1/jobs", `{"url":"https://shop.example/hook","bizKey":"a"}`, "/bizKey", "biz_key"},
		{"POST", "/v1/jobs", `{"url":"https://shop.example/hook","retry":{"step":["1s"]}}`, "/retry/step", "steps"},
		{"POST", "/v1/jobs", `{"url":"https://shop.example/hook","colour":"blue"}`, "/colour", ""},
		{"POST", "/v1/jobs/batch", `{"job":[]}`, "/job", "jobs"},
		{"PATCH", "/v1/jobs/t/a", `{"prio":1,"priorty":2}`, "/priorty", "priority"},
		{"POST", "/v1/operations", `{"action":"run","filter":{"topics":"t"}}`, "/filter/topics", "topic"},
		{"PUT", "/v1/topics/t", `{"rates":"1/s"}`, "/rates", "rate"},
		{"GET", "/v1/jobs?stat=dead", "", "?stat", "?state"},
		{"GET", "/v1/jobs?limits=1", "", "?limits", "?limit"},
		{"GET", "/v1/jobs?x=1", "", "?x", ""},
	} {
		p := a.wantProblem(httpapi.CodeInvalidRequest, tt.method, tt.path, tt.body)
		at := slices.IndexFunc(p.Errors, func(f httpapi.FieldError) bool { return f.Pointer == tt.pointer })
		if at < 0 {
			t.Errorf("%s %s %s: %+v", tt.method, tt.path, tt.body, p.Errors)
			continue
		}
		_, hint, _ := strings.Cut(p.Errors[at].Message, "; did you mean ")
		if strings.TrimSuffix(hint, "?") != tt.meant {
			t.Errorf("%s: %s", tt.body+tt.path, p.Errors[at].Message)
		}
	}
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, `"topik%d":1,`, i)
	}
	p := a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs", "{"+b.String()[:1<<19]+`":1}`)
	if len(p.Errors) > decode.MaxErrors {
		t.Errorf("%d errors", len(p.Errors))
	}
}

// A batch lists as many errors as any answer, and then one for each job that is wrong.
func TestErrorsOfABatch(t *testing.T) {
	a := newAPI(t)
	const wrong = 50
	object := func(member string) string {
		var b strings.Builder
		for i := range 60 {
			fmt.Fprintf(&b, member, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	for name, one := range map[string]string{
		"unknown fields": `{"url":"https://shop.example",` + object(`"topik%d":1,`) + `}`,
		"headers":        `{"url":"https://shop.example","headers":{` + object(`"a b%d":"x",`) + `}}`,
		"both":           `{"url":"https://shop.example",` + object(`"topik%d":1,`) + `,"headers":{` + object(`"a b%d":"x",`) + `}}`,
		"one":            `{"url":1}`,
	} {
		if p := a.wantProblem(httpapi.CodeInvalidRequest, "POST", "/v1/jobs", one); name != "one" && len(p.Errors) != decode.MaxErrors {
			t.Errorf("%s: a job has %d errors", name, len(p.Errors))
		}
		jobs := strings.Repeat(one+",", wrong) + `{"url":"https://shop.example"}`
		got := a.call("POST", "/v1/jobs/batch", `{"jobs":[`+jobs+`]}`)
		var answer struct {
			Results []struct {
				Status int
				Error  *httpapi.Problem
			}
		}
		if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil || len(answer.Results) != wrong+1 {
			t.Fatalf("%s: %d results, %v", name, len(answer.Results), err)
		}
		listed := 0
		for _, r := range answer.Results[:wrong] {
			if r.Status != http.StatusUnprocessableEntity || len(r.Error.Errors) == 0 {
				t.Fatalf("%s: %d %+v", name, r.Status, r.Error)
			}
			listed += len(r.Error.Errors)
		}
		if most := decode.MaxErrors + wrong - 1; listed > most || name != "one" && listed != most {
			t.Errorf("%s: %d errors are listed, want %d", name, listed, most)
		}
		if answer.Results[wrong].Status != http.StatusCreated {
			t.Errorf("%s: the valid job: %d", name, answer.Results[wrong].Status)
		}
	}
}
