package v1

import (
	"strings"
	"testing"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/services/jobjson"
	"github.com/duehook/duehook/job"
)

// The callback of a group is for registrations of groups, and its body is as documented.
func TestAllEndedCallback(t *testing.T) {
	a := newAPI(t)
	const on = `"callbacks":{"all_ended":{"url":"https://shop.example/ended"}}`
	for path, body := range map[string]string{
		"POST /v1/jobs":       `{"url":"https://shop.example/hook",` + on + `}`,
		"PUT /v1/topics/t":    `{` + on + `}`,
		"PUT /v1/schedules/s": `{"every":"1h","job":{"url":"https://shop.example/hook",` + on + `}}`,
	} {
		method, path, _ := strings.Cut(path, " ")
		if p := a.wantProblem(httpapi.CodeInvalidRequest, method, path, body); p.Errors[0].Pointer != "/callbacks/all_ended" && p.Errors[0].Pointer != "/job/callbacks/all_ended" {
			t.Errorf("%s: %v", path, p.Errors)
		}
	}
	a.want(201, "PUT", "/v1/groups/g", twoMembers)
	a.want(201, "POST", "/v1/jobs", `{"group":"g","id":"o","topic":"t",`+on+`}`)
	ended := a.stored("t", "o:billing")
	callback := job.Job{CreatedAt: ended.CreatedAt, Spec: job.Spec{Reports: job.CallbackAllEnded}}
	body := jobjson.AllEndedBody(&callback, &ended, job.Ends{Jobs: 2, By: map[job.State]int{job.Dead: 1}, Unknown: 1})
	if err := theContract().validate("/components/schemas/AllEndedBody", body); err != nil {
		t.Errorf("%v in\n%s", err, body)
	}
}
