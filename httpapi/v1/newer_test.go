package v1

import (
	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/store"
)

// coverNewer asks for what a newer version stored in another form.
func coverNewer(a *keyedAPI) {
	for kind, name := range map[string]string{"topic": "newer", "alert-rule": "newer", "operation": "01KDWCJ2M0000000000000NEWR", "schedule": "newer"} {
		_, err := store.PutDocument(a.t.Context(), a.mem, store.Document{Kind: kind, Name: name, Data: []byte(`[]`)})
		if err != nil {
			a.t.Fatal(err)
		}
	}
	for _, call := range [][3]string{
		{"GET", "/v1/topics/newer", ""},
		{"PUT", "/v1/topics/newer", `{"rate":5}`},
		{"DELETE", "/v1/topics/newer", ""},
		{"POST", "/v1/topics/newer/pause", ""},
		{"POST", "/v1/topics/newer/drain", ""},
		{"POST", "/v1/topics/newer/resume", ""},
		{"GET", "/v1/topics/newer/limits", ""},
		{"PUT", "/v1/topics/newer/limits", `{"rate":5}`},
		{"DELETE", "/v1/topics/newer/limits", ""},
		{"GET", "/v1/alerts/rules/newer", ""},
		{"PUT", "/v1/alerts/rules/newer", `{"metric":"backlog","above":10}`},
		{"PATCH", "/v1/topics/newer", `{}`},
		{"PATCH", "/v1/alerts/rules/newer", `{}`},
		{"PATCH", "/v1/schedules/newer", `{}`},
		{"GET", "/v1/schedules/newer", ""},
		{"GET", "/v1/schedules/newer/registration", ""},
		{"GET", "/v1/schedules/newer/occurrences", ""},
		{"GET", "/v1/schedules/newer/runs", ""},
		{"PUT", "/v1/schedules/newer", `{"every":"1h","job":{"url":"https://shop.example/hook"}}`},
		{"POST", "/v1/schedules/newer/pause", ""},
		{"POST", "/v1/schedules/newer/resume", ""},
		{"POST", "/v1/schedules/newer/skip", ""},
		{"POST", "/v1/schedules/newer/unskip", ""},
		{"POST", "/v1/schedules/newer/run", ""},
		{"GET", "/v1/operations/01KDWCJ2M0000000000000NEWR", ""},
		{"POST", "/v1/operations/01KDWCJ2M0000000000000NEWR/stop", ""},
		{"POST", "/v1/operations/01KDWCJ2M0000000000000NEWR/resume", ""},
	} {
		a.wantProblem(httpapi.CodeNewerVersion, call[0], call[1], call[2])
	}
	a.want(200, "GET", "/v1/topics", "")
	a.want(200, "DELETE", "/v1/schedules/newer", "") // readable or not
}
