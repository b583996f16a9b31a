// Package generated tests that a Go client generated from the OpenAPI document works against a
// node. e2e/generated/check generates it.
package generated

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/duehook/duehook/e2e/generated/api"
)

// startNode starts `duehook dev` of the binary in $DUEHOOK, and returns its address.
func startNode(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(os.Getenv("DUEHOOK"), "dev", "--addr", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	base := regexp.MustCompile(`^duehook dev \S+: (\S+)`)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := base.FindStringSubmatch(lines.Text()); found != nil {
			return found[1]
		}
	}
	t.Fatal("the node ended before it said its address", lines.Err())
	return ""
}

func TestGeneratedClient(t *testing.T) {
	c, err := api.NewClientWithResponses(startNode(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var delay api.Duration
	if err := delay.UnmarshalJSON([]byte(`"1h"`)); err != nil {
		t.Fatal(err)
	}
	topic, id, url := "order-timeout", "order-1", "https://shop.example/hook"
	made, err := c.RegisterJobWithResponse(ctx, nil, api.Registration{Topic: &topic, Id: &id, Url: &url, Delay: &delay, Body: map[string]bool{"paid": true}})
	if err != nil || made.JSON201 == nil {
		t.Fatalf("%v %s", err, made.Body)
	}
	job, err := made.JSON201.AsRegisteredJob()
	if err != nil || job.Result != "created" || job.State != "waiting" {
		t.Errorf("%+v, %v", job, err)
	}
	found, err := c.GetJobWithResponse(ctx, topic, id)
	if err != nil || found.JSON200 == nil || !found.JSON200.DueAt.Equal(job.DueAt) || found.JSON200.Version != job.Version {
		t.Errorf("%v %s", err, found.Body)
	}
	states := []api.State{"waiting", "ready"}
	page, err := c.ListJobsWithResponse(ctx, &api.ListJobsParams{Topic: &topic, State: &states})
	if err != nil || page.JSON200 == nil || len(page.JSON200.Data) != 1 || page.JSON200.NextCursor != nil {
		t.Errorf("%v %s", err, page.Body)
	}
	missing, err := c.GetJobWithResponse(ctx, topic, "nobody")
	if err != nil || missing.ApplicationproblemJSON404 == nil || missing.ApplicationproblemJSON404.Code != "job_not_found" {
		t.Errorf("%v %s", err, missing.Body)
	}
	window := api.GetActivityParamsWindowN24h
	activity, err := c.GetActivityWithResponse(ctx, &api.GetActivityParams{Window: &window})
	if err != nil || activity.JSON200 == nil || len(activity.JSON200.Delivered) != 96 {
		t.Errorf("%v %s", err, activity.Body)
	}
}
