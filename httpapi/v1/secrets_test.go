package v1

import (
	"slices"

	"github.com/duehook/duehook/internal/job"
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
