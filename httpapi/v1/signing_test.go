package v1

import (
	"bytes"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
)

// newSigning are the secrets of a store. An empty master key is none, and so is
// an empty secret of the settings.
func (a *api) newSigning(stored store.Documents, masterKey, configured string) *signing.Secrets {
	a.t.Helper()
	seal := documents.NewSeal()
	if masterKey != "" {
		key, err := documents.ParseMasterKey(masterKey)
		must.OK(a.t, err)
		seal.Use(key)
	}
	secrets, err := signing.New(signing.Options{Documents: stored, Seal: seal, Default: configured, Clock: a.clock})
	must.OK(a.t, err)
	return secrets
}

// emptyStore is a store beside that of the API.
func (a *api) emptyStore() diskstore.Embedded {
	a.t.Helper()
	return testenv.Store(a.t, diskstore.Options{Clock: a.clock})
}

// withSigning does something with other secrets, or with nothing to keep them.
func (a *api) withSigning(other Signing, do func()) {
	a.t.Helper()
	mine := a.v1.Signing
	a.v1.Signing = other
	do()
	a.v1.Signing = mine
}

// signatures is how many secrets sign for a topic.
func (a *api) signatures(topic string) int {
	a.t.Helper()
	header, err := a.signing.Sign(a.t.Context(), topic, "id", a.clock.Now(), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return len(strings.Fields(header))
}

// signedBy reports whether a topic is signed for with a secret.
func (a *api) signedBy(topic, secret string) bool {
	a.t.Helper()
	other := a.newSigning(a.emptyStore(), "", secret)
	if err := other.Load(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
	want, err := other.Sign(a.t.Context(), "", "id", a.clock.Now(), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	got, err := a.signing.Sign(a.t.Context(), topic, "id", a.clock.Now(), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return strings.Contains(" "+got+" ", " "+want+" ")
}

const (
	given = "whsec_YW4gZXhhbXBsZTsgbmV2ZXIgdXNlIGl0IGluIGVhcm4="
	nine  = "2026-01-01T09:00:00.000Z"
)

// secretID is how the API names a secret.
func (a *api) secretID(text string) string {
	a.t.Helper()
	s, err := signing.ParseSecret(text)
	if err != nil {
		a.t.Fatal(err)
	}
	return s.ID()
}

// described is a secret as an answer describes it; an empty end is none.
func (a *api) described(text, created, ends string) any {
	end := any(ends)
	if ends == "" {
		end = nil
	}
	return map[string]any{"id": a.secretID(text), "created_at": created, "ends_at": end}
}

func TestATopicGetsASecretOfItsOwn(t *testing.T) {
	a := newAPI(t)
	wantInfo := func(source string, updated any, secrets ...any) {
		t.Helper()
		got := a.want(200, "GET", "/v1/topics/t/signing", "")
		if version := got["version"] != 0.0; version != (updated != nil) {
			t.Errorf("the version is %v", got["version"])
		}
		delete(got, "version")
		if diff := cmp.Diff(map[string]any{"topic": "t", "source": source, "created_at": updated, "updated_at": updated, "secrets": secrets}, got); diff != "" {
			t.Error(diff)
		}
	}
	byDefault := a.described(a.secret, nine, "")
	wantInfo("default", nil, byDefault)

	a.clock.Advance(time.Minute)
	made := a.want(201, "PUT", "/v1/topics/t/signing", `{}`)
	first := made["secret"].(string)
	const oneLater = "2026-01-01T09:01:00.000Z"
	wantInfo("topic", oneLater, a.described(first, oneLater, ""))
	if a.signatures("t") != 1 || !a.signedBy("t", first) {
		t.Error("the secret that was made does not sign alone")
	}
	if a.signedBy("u", first) || !a.signedBy("u", a.secret) {
		t.Error("another topic is not signed for by the default")
	}

	a.clock.Advance(time.Minute)
	put := a.want(200, "PUT", "/v1/topics/t/signing", `{"secret":"`+given+`"}`)
	if put["secret"] != given || a.signatures("t") != 1 || !a.signedBy("t", given) {
		t.Errorf("the secret that was given does not sign alone: %v", put)
	}
	again := a.want(200, "PUT", "/v1/topics/t/signing", `{"secret":"`+given+`"}`)
	if diff := cmp.Diff(put, again); diff != "" {
		t.Errorf("the same again: %s", diff)
	}
	got := a.want(200, "DELETE", "/v1/topics/t/signing", "")
	if diff := cmp.Diff(map[string]any{"result": "deleted"}, got); diff != "" {
		t.Error(diff)
	}
	wantInfo("default", nil, byDefault)
	if a.signatures("t") != 1 || !a.signedBy("t", a.secret) {
		t.Error("the default does not sign again")
	}
}

func TestRotation(t *testing.T) {
	for _, path := range []string{"/v1/signing", "/v1/topics/t/signing"} {
		for body, overlap := range map[string]time.Duration{
			"": 24 * time.Hour, `{}`: 24 * time.Hour, `{"overlap":null,"secret":null}`: 24 * time.Hour,
			`{"overlap":"90m"}`: 90 * time.Minute, `{"overlap":5400}`: 90 * time.Minute,
			`{"overlap":"30d","secret":"` + given + `"}`: 30 * 24 * time.Hour, `{"overlap":0}`: 0, `{"overlap":"0s"}`: 0,
		} {
			a := newAPI(t)
			a.clock.Advance(time.Hour)
			rotated := a.want(200, "POST", path+"/rotate", body)
			fresh := rotated["secret"].(string)
			if strings.Contains(body, given) && fresh != given {
				t.Errorf("%s %s: not the secret that was given", path, body)
			}
			want := []any{a.described(fresh, "2026-01-01T10:00:00.000Z", "")}
			if overlap > 0 {
				end := a.clock.Now().Add(overlap).Format(job.TimeFormat)
				want = append(want, a.described(a.secret, nine, end))
			}
			if diff := cmp.Diff(any(want), rotated["secrets"]); diff != "" {
				t.Errorf("%s %s: %s", path, body, diff)
			}
			if a.signatures("t") != len(want) || !a.signedBy("t", fresh) || a.signedBy("t", a.secret) != (overlap > 0) {
				t.Errorf("%s %s: it is not these that sign", path, body)
			}
			a.clock.Advance(overlap)
			if a.signatures("t") != 1 || !a.signedBy("t", fresh) {
				t.Errorf("%s %s: after the overlap, the new secret does not sign alone", path, body)
			}
			info := a.want(200, "GET", path, "")
			if diff := cmp.Diff(any(want[:1]), info["secrets"]); diff != "" {
				t.Errorf("%s %s: after the overlap: %s", path, body, diff)
			}
		}
	}
}

func TestSecretOfTheSettings(t *testing.T) {
	a := newAPI(t)
	a.withSigning(a.newSigning(a.mem, documents.GenerateMasterKey(), given+","+a.secret), func() {
		want := map[string]any{"topic": nil, "source": "settings", "created_at": nil, "updated_at": nil, "version": 0.0, "secrets": []any{
			map[string]any{"id": a.secretID(given), "created_at": nil, "ends_at": nil},
			map[string]any{"id": a.secretID(a.secret), "created_at": nil, "ends_at": nil},
		}}
		if diff := cmp.Diff(want, a.want(200, "GET", "/v1/signing", "")); diff != "" {
			t.Error(diff)
		}
		a.wantProblem(httpapi.CodeSecretFixed, "PUT", "/v1/signing", `{}`)
		a.wantProblem(httpapi.CodeSecretFixed, "POST", "/v1/signing/rotate", "")
		a.want(201, "PUT", "/v1/topics/t/signing", `{}`)
	})
}

func TestBadSecretsAreRefused(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct{ method, path, body, pointers string }{
		{"PUT", "/v1/signing", `{"secret":""}`, "/secret"},
		{"PUT", "/v1/signing", `{"secret":1}`, "/secret"},
		{"PUT", "/v1/signing", `{"secret":"hunter2"}`, "/secret"},
		{"PUT", "/v1/signing", `{"secret":"whsec_aHVudGVyMg=="}`, "/secret"},
		{"PUT", "/v1/signing", `{"secret":"` + given[:len(given)-1] + `"}`, "/secret"},
		{"PUT", "/v1/signing", `{"secret":"` + given + `","secret":"` + given + `"}`, "/secret"},
		{"PUT", "/v1/signing", `{"overlap":"1h"}`, "/overlap"},
		{"PUT", "/v1/signing", `[]`, ""},
		{"PUT", "/v1/topics/a%20b/signing", `{}`, "/topic"},
		{"GET", "/v1/topics/a%20b/signing", "", "/topic"},
		{"DELETE", "/v1/topics/../signing", "", "/topic"},
		{"DELETE", "/v1/topics/t/signing", `{"a":1}`, ""},
		{"POST", "/v1/topics/a%20b/signing/rotate", "", "/topic"},
		{"POST", "/v1/signing/rotate", `{"overlap":"soon"}`, "/overlap"},
		{"POST", "/v1/signing/rotate", `{"overlap":-1}`, "/overlap"},
		{"POST", "/v1/signing/rotate", `{"overlap":true}`, "/overlap"},
		{"POST", "/v1/signing/rotate", `{"overlap":"30d1ms"}`, "/overlap"},
		{"POST", "/v1/signing/rotate", `{"overlap":"31d","secret":"hunter2"}`, "/overlap /secret"},
		{"POST", "/v1/signing/rotate", `{"topic":"t"}`, "/topic"},
		{"POST", "/v1/signing/rotate?overlap=1h", "", "?overlap"},
	} {
		p := a.wantProblem(httpapi.CodeInvalidRequest, tc.method, tc.path, tc.body)
		var got []string
		for _, e := range p.Errors {
			got = append(got, e.Pointer)
			if strings.Contains(e.Message, "hunter2") || strings.Contains(e.Message, given[6:20]) {
				t.Errorf("%s %s: tells the secret: %s", tc.path, tc.body, e.Message)
			}
		}
		if strings.Join(got, " ") != tc.pointers {
			t.Errorf("%s %s %s: got %q, want %q", tc.method, tc.path, tc.body, got, tc.pointers)
		}
	}
	a.wantProblem(httpapi.CodeMalformedJSON, "PUT", "/v1/signing", "", "Content-Type", "application/json")
	a.wantProblem(httpapi.CodeMethodNotAllowed, "DELETE", "/v1/signing", "")
	if a.signatures("t") != 1 || !a.signedBy("t", a.secret) {
		t.Error("something was changed")
	}
}

// Every secret is told by the answer to the request that set it, and nowhere
// else, whatever goes wrong.
func TestSecretsAreNotTold(t *testing.T) {
	var log bytes.Buffer
	a := newKeyedAPI(t, func(o *testOptions) {
		o.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	secrets := []string{a.secret}
	rest := "" // of what the API tells
	for range 2 {
		for _, path := range []string{"/v1/signing", "/v1/topics/t/signing"} {
			for _, call := range []struct{ method, path, body string }{
				{"PUT", path, `{}`},
				{"POST", path + "/rotate", ""},
				{"POST", path + "/rotate", `{"secret":"` + signing.NewSecret().Reveal() + `"}`},
			} {
				got := a.call(call.method, call.path, call.body)
				answer := got.Body.String()
				_, secret, _ := strings.Cut(answer, `"secret":"`)
				secret, _, ok := strings.Cut(secret, `"`)
				if !ok || got.Header().Get("Cache-Control") != "no-store" {
					t.Fatalf("%s %s: %s", call.method, call.path, answer)
				}
				rest += strings.Replace(answer, secret, "", 1)
				secrets = append(secrets, secret)
			}
			rest += a.call("GET", path, "").Body.String()
		}
	}
	kept := signing.NewSecret().Reveal()
	secrets = append(secrets, kept)
	for i, fail := range []func() error{
		func() error { return store.ErrUnavailable },
		func() error { return errors.New("a defect") },
		func() error { panic("a defect") },
	} {
		a.faults.set(fail)
		rest += a.call("PUT", "/v1/topics/t"+strconv.Itoa(i)+"/signing", `{"secret":"`+kept+`"}`).Body.String()
	}
	a.faults.set(nil)
	for _, bad := range []string{`{"secret":"` + kept + `x"}`, `{"secret":"` + kept + `","secret":"` + kept + `"}`, `{"secret":["` + kept + `"]}`, `{"secret":"` + kept + `"`} {
		rest += a.call("PUT", "/v1/signing", bad).Body.String()
	}
	if !strings.Contains(log.String(), `"what":"PUT /v1/signing"`) || !strings.Contains(rest, "invalid_request") {
		t.Fatalf("nothing was logged or told:\n%s\n%s", &log, rest)
	}
	for _, secret := range secrets {
		if text := secret[len("whsec_"):]; strings.Contains(log.String(), text) || strings.Contains(rest, text) {
			t.Errorf("%s is told in\n%s\n%s", secret, &log, rest)
		}
	}
}
