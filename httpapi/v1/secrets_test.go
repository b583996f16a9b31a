package v1

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/services/access"
	"github.com/duehook/duehook/store"
)

// hush is in every place where clients put secrets.
const hush = "hush-hush"

// withSecrets makes one of everything in a topic, with secrets wherever there can be some.
func (a *api) withSecrets(topic, name string) {
	a.t.Helper()
	url := "https://shop.example/hook?token=" + hush
	headers := `"headers":{"Authorization":"Bearer ` + hush + `"}`
	callbacks := `"callbacks":{"dead":{"url":"` + url + `",` + headers + `}}`
	spec := `"url":"` + url + `",` + headers + `,` + callbacks + `,"body":{"pin":"` + hush + `"}`
	a.want(201, "PUT", "/v1/topics/"+topic, `{`+headers+`,`+callbacks+`,"url":"`+url+`"}`)
	a.want(201, "PUT", "/v1/groups/"+name, `{"members":[{"name":"m","url":"`+url+`",`+headers+`}]}`)
	a.want(201, "PUT", "/v1/alerts/rules/"+name, `{"metric":"backlog","topic":"`+topic+`","above":1,"url":"`+url+`"}`)
	a.want(201, "PUT", "/v1/schedules/"+name, `{"every":"1h","job":{"topic":"`+topic+`",`+spec+`}}`)
	a.want(201, "POST", "/v1/jobs", `{"topic":"`+topic+`","id":"dies",`+spec+`}`)
	due := a.claim() // callbacks of earlier ones, too
	at := slices.IndexFunc(due, func(c store.Claimed) bool { return c.Job.Key == job.Key{Topic: topic, ID: "dies"} })
	if at < 0 {
		a.t.Fatal("the job is not due")
	}
	a.settle(due[at], job.OutcomeRefused, job.Attempt{
		Status: 400, Error: "http_400", ResponseBody: "go to " + url, ResponseHeaders: []job.Header{{Name: "Location", Value: url}},
	})
	a.want(201, "POST", "/v1/jobs", `{"topic":"`+topic+`","id":"waits","delay":"1h",`+spec+`}`)
	a.want(202, "POST", "/v1/operations", `{"action":"cancel","filter":{"topic":"`+topic+`"}}`)
}

// No answer shows a secret to a caller who could not have set it.
func TestSecretsAreMasked(t *testing.T) {
	a := newKeyedAPI(t)
	a.withSecrets("t", "n")
	read, key := a.newKey(access.Draft{Scope: "read"})
	ring := a.keyring(key, a.admin)
	shown := map[string]bool{}
	a.withAccess(ring, func() {
		for _, rt := range allRoutes {
			if rt.method != http.MethodGet || rt.path == eventsPath {
				continue
			}
			for _, id := range []string{"waits", "dies"} {
				path := strings.NewReplacer("{topic}", "t", "{id}", id, "{rule}", "n", "{schedule}", "n", "{group}", "n").Replace(rt.path)
				if strings.Contains(a.call("GET", path, "").Body.String(), hush) {
					shown[rt.path] = true
				}
				got := a.call("GET", path, "", "Authorization", "Bearer "+read)
				if rt.scope == access.Read && got.Code == http.StatusForbidden {
					t.Errorf("GET %s: %d", path, got.Code)
				}
				if strings.Contains(got.Body.String(), hush) {
					t.Errorf("GET %s shows the secret to a key that reads: %s", path, got.Body)
				}
			}
		}
	})
	for _, path := range []string{
		"/v1/jobs", "/v1/jobs/{topic}/{id}", "/v1/jobs/{topic}/{id}/attempts", "/v1/jobs/{topic}/{id}/explain", "/v1/jobs/{topic}/{id}/registration",
		"/v1/topics", "/v1/topics/{topic}", "/v1/groups", "/v1/groups/{group}", "/v1/schedules", "/v1/schedules/{schedule}", "/v1/schedules/{schedule}/registration",
		"/v1/alerts/rules", "/v1/alerts/rules/{rule}",
	} {
		if !shown[path] {
			t.Errorf("GET %s does not show the secret to an admin, so this test does not test it", path)
		}
	}
}
