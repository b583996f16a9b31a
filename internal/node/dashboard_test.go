package node

import (
	"net/http"
	"strings"
	"testing"
)

func TestDashboardIsServedUnlessTurnedOff(t *testing.T) {
	for _, on := range []bool{true, false} {
		c := embedded(t, t.TempDir())
		c.Dashboard = on
		r := start(t, c)
		want := http.StatusNotFound
		if on {
			want = http.StatusOK
		}
		if status, _, page := r.call(http.MethodGet, "/", ""); status != want || strings.Contains(page, "<html") != on {
			t.Errorf("on %v: %d %s", on, status, page)
		}
		if err := r.shutdown(); err != nil {
			t.Error(err)
		}
	}
}
