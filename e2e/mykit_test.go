package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/duehook/duehook/e2e/receiver"
	"github.com/duehook/duehook/internal/testing/testenv"
)

// TestMykitClientLosesNothing: a client of mykit-delay repeats what failed, as it does with the original,
// while the node is killed and started again. Each job that it was told to be in is delivered.
func TestMykitClientLosesNothing(t *testing.T) {
	t.Parallel()
	r := receiver.Start(t, slowly)
	n := startEmbedded(t, shipped, "--dialects", "mykit")
	call := func(method, path, body string) (success bool) {
		req, err := http.NewRequestWithContext(t.Context(), method, n.base()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		var answer struct{ Success bool }
		return err == nil && resp.StatusCode < 300 && (json.Unmarshal(text, &answer) == nil && answer.Success || method == http.MethodPut)
	}
	if !call(http.MethodPut, "/v1/topics/order", `{"url":"`+r.URL()+`"}`) {
		t.Fatal("the url of the topic was refused")
	}
	const jobs, kills = 400, 4
	for i := range jobs {
		if i%(jobs/kills) == jobs/kills/2 { // some jobs of before are in flight
			n.Kill()
			n.start()
		}
		push := fmt.Sprintf(`{"topic":"order","id":"o-%d","delay":%d,"body":"%d"}`, i, 10*(i%100), i)
		for tries := 0; !call(http.MethodPost, "/push", push); tries++ {
			if tries == 100 {
				t.Fatalf("%s fails", push)
			}
		}
	}
	testenv.Eventually(t, time.Minute, func() bool { return r.Jobs() == jobs }, "each job is delivered")
	for i := range jobs {
		for _, d := range r.Of("order", fmt.Sprint("o-", i)) {
			if d.Body != fmt.Sprint(i) {
				t.Errorf("o-%d was delivered with %q", i, d.Body)
			}
		}
	}
}
