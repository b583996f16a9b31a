package v1

import (
	"fmt"
	"strings"

	"github.com/duehook/duehook/httpapi"
)

// meant are the calls that other queues have under these names.
var meant = map[string]string{
	"cancel":     "DELETE %s cancels a job",
	"delete":     "DELETE %s cancels a job",
	"retry":      "POST %[1]s/run sends an unfinished job now, and POST %[1]s/replay a dead letter again",
	"requeue":    "POST %[1]s/run sends an unfinished job now, and POST %[1]s/replay a dead letter again",
	"reschedule": `PATCH %s with {"delay": "1h"} or {"at": "…"} reschedules a job`,
	"update":     `PATCH %s with {"delay": "1h"} or {"at": "…"} changes a job`,
	"ack":        "POST /v1/pull/ack acknowledges leased jobs, and POST %s/finish ends a job that nobody has leased",
}

// missing says which call a path means that does not exist.
func missing(path string) string {
	rest, ofJobs := strings.CutPrefix(path, jobsPath+"/")
	parts := strings.Split(rest, "/")
	if !ofJobs || len(parts) != 3 || meant[parts[2]] == "" {
		return ""
	}
	return "There is no such path. " + fmt.Sprintf(meant[parts[2]], jobsPath+"/"+httpapi.Shorten(parts[0])+"/"+httpapi.Shorten(parts[1])) + "."
}
