package schedule

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/duehook/duehook/internal/job"
)

// request is a timetable as the vectors write it.
type request struct {
	Cron    *string
	Every   *string
	Anchor  string
	Zone    string `json:"timezone"`
	DST     *dst
	StartAt string `json:"start_at"`
	EndAt   string `json:"end_at"`
}

type dst struct{ Gap, Repeat string }

type omitted struct{ Local, Reason string }

type vector struct {
	request
	Name       string
	From       string
	Count      int
	Expect     []string
	Local      []string
	DSTInForce dst `json:"dst_in_force"`
	Effects    []*string
	Wanted     []*string
	Omitted    []omitted
}

type vectors struct {
	Vectors []vector
	Errors  []struct {
		Name    string
		Request request
		Error   string
	}
	Occurrences []struct {
		Schedule, Time, Jitter, ID string
		DueAt                      string `json:"due_at"`
	}
}

func load(t *testing.T) vectors {
	t.Helper()
	var v vectors
	for _, name := range []string{"vectors.json", "more.json"} {
		data, err := os.ReadFile("../../testdata/schedules/" + name)
		if err != nil {
			t.Fatal(err)
		}
		var file vectors
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		v.Vectors = append(v.Vectors, file.Vectors...)
		v.Errors = append(v.Errors, file.Errors...)
		v.Occurrences = append(v.Occurrences, file.Occurrences...)
	}
	if len(v.Vectors) < 300 || len(v.Errors) < 40 || len(v.Occurrences) < 5 {
		t.Fatalf("%d vectors, %d errors, %d occurrences", len(v.Vectors), len(v.Errors), len(v.Occurrences))
	}
	return v
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	parsed, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func (r *request) spec(t *testing.T) Spec {
	t.Helper()
	s := Spec{Zone: r.Zone, Anchor: at(t, r.Anchor), Start: at(t, r.StartAt), End: at(t, r.EndAt)}
	if r.Cron != nil {
		s.Cron = *r.Cron
	}
	if r.Every != nil {
		d, err := job.ParseDuration(*r.Every)
		if err != nil {
			t.Fatal(err)
		}
		s.Every, s.HasEvery = d, true
	}
	if r.DST != nil {
		s.Gap, s.Repeat = Gap(r.DST.Gap), Repeat(r.DST.Repeat)
	}
	return s
}

// formerZones is an older release, as a file of --tzdata.
func formerZones(t *testing.T) []byte {
	t.Helper()
	packed, err := os.ReadFile("testdata/2025c.zip.zst")
	if err != nil {
		t.Fatal(err)
	}
	data, err := unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestVectors: the vectors hold with each release.
func TestVectors(t *testing.T) {
	former, err := ReadZones(withRelease(t, formerZones(t), versionFile, "2025c\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, zones := range map[string]*Zones{"former": former, "built in": nil} {
		UseZones(zones)
		t.Run(name, testVectors)
		UseZones(nil)
	}
}

func testVectors(t *testing.T) {
	for _, v := range load(t).Vectors {
		t.Run(v.Name, func(t *testing.T) {
			table, err := New(v.spec(t))
			if err != nil {
				t.Fatal(err)
			}
			if got := (dst{string(table.Gap), string(table.Repeat)}); got != v.DSTInForce {
				t.Errorf("rules %+v, want %+v", got, v.DSTInForce)
			}
			p := table.Preview(at(t, v.From), v.Count)
			var times, local, effects, wanted []string
			for _, o := range p.Occurrences {
				times = append(times, o.Time.UTC().Format(time.RFC3339))
				local = append(local, o.Time.Format(LocalLayout))
				effects = append(effects, string(o.Effect))
				wanted = append(wanted, o.Wanted)
			}
			if diff := cmp.Diff(v.Expect, times, none); diff != "" {
				t.Errorf("times (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(v.Local, local, none); diff != "" {
				t.Errorf("local times (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(filled(v.Effects, len(times)), effects, none); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(filled(v.Wanted, len(times)), wanted, none); diff != "" {
				t.Errorf("wanted (-want +got):\n%s", diff)
			}
			var left []omitted
			for _, o := range p.Omitted {
				left = append(left, omitted{o.Local, string(o.Reason)})
			}
			if diff := cmp.Diff(v.Omitted, left, none); diff != "" {
				t.Errorf("omitted (-want +got):\n%s", diff)
			}
		})
	}
}

// none takes an empty list for none.
var none = cmpopts.EquateEmpty()

// filled is a list of n values, of which absent ones are empty.
func filled(list []*string, n int) []string {
	out := make([]string, n)
	for i, s := range list {
		if s != nil {
			out[i] = *s
		}
	}
	return out
}

func TestRefusals(t *testing.T) {
	for _, v := range load(t).Errors {
		s := v.Request.spec(t)
		_, err := New(s)
		var refused *job.ValidationError
		if !errors.As(err, &refused) {
			t.Errorf("%s: accepted (%v)", v.Name, err)
			continue
		}
		if got := "/" + strings.ReplaceAll(string(refused.Fields[0].Field), ".", "/"); got != v.Error || len(refused.Fields) > 1 {
			t.Errorf("%s: %s (%v), want %s", v.Name, got, err, v.Error)
		}
	}
}

func TestIDAndJitter(t *testing.T) {
	for _, o := range load(t).Occurrences {
		jitter, err := job.ParseDuration(o.Jitter)
		if err != nil {
			t.Fatal(err)
		}
		if got := ID(o.Schedule, at(t, o.Time)); got != o.ID {
			t.Errorf("id %s, want %s", got, o.ID)
		}
		due := Due(o.Schedule, at(t, o.Time), jitter).UTC().Format("2006-01-02T15:04:05.000Z")
		if due != o.DueAt {
			t.Errorf("%s: due at %s, want %s", o.ID, due, o.DueAt)
		}
	}
}
