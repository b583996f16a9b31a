package v1

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/httpapi"
)

// TestViewsAreWrittenAsByEncodingJSON compares what views write themselves with
// what encoding/json makes of them.
func TestViewsAreWrittenAsByEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		results := resultsView{Results: rapid.SliceOfN(rapid.Make[itemView](), 0, 3).Draw(t, "results")}
		page := jobPage{
			Data:       rapid.SliceOfN(rapid.Make[jobView](), 0, 3).Draw(t, "data"),
			NextCursor: rapid.Make[*string]().Draw(t, "cursor"),
		}
		registered := rapid.Make[registeredView]().Draw(t, "registered")
		callback := rapid.Make[callbackBody]().Draw(t, "callback")
		for _, v := range []appender{results, page, &registered, &callback} {
			var want bytes.Buffer
			if err := httpapi.Encode(&want, v); err != nil {
				t.Fatal(err)
			}
			got, err := v.appendJSON(nil)
			if diff := cmp.Diff(want.String(), string(got)+"\n"); err != nil || diff != "" {
				t.Fatalf("error %v, written (-encoding/json +views):\n%s", err, diff)
			}
		}
	})
}
