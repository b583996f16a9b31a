package documents

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/duehook/duehook/store"
)

type shape struct {
	Rate  int              `json:"rate,omitempty"`
	Inner *inner           `json:"inner,omitempty"`
	Named map[string]inner `json:"named,omitempty"`
	List  []inner          `json:"list,omitempty"`
	Zero  inner            `json:"zero,omitzero"`
	At    time.Time        `json:"at,omitzero"`
	Local string           `json:"-"`
	Plain int
	outer
}

type inner struct {
	A int `json:"a"`
}

type outer struct {
	Promoted string `json:"promoted,omitempty"`
}

func TestDecodeTakesFieldsOfNewerVersions(t *testing.T) {
	read := func(data string, strict bool) (s shape, err error) {
		d := New(Options[shape]{Kind: "topic", Strict: strict}).Decode(store.Document{Name: "t", Data: []byte(data)})
		return d.Value, d.Err
	}
	const newer = `{"rate":5,"burst":2,"inner":{"a":1,"b":2}}`
	if s, err := read(newer, false); err != nil || s.Rate != 5 || s.Inner.A != 1 {
		t.Errorf("got %+v, error %v", s, err)
	}
	if _, err := read(newer, true); !errors.Is(err, store.ErrNewer) {
		t.Errorf("strictly: %v", err)
	}
	var last shape
	for _, data := range []string{``, `[]`, `{"rate":"5","inner":{"a":7}}`} {
		var err error
		if last, err = read(data, false); !errors.Is(err, store.ErrNewer) {
			t.Errorf("%s: %v", data, err)
		}
	}
	if last.Inner == nil || last.Inner.A != 7 {
		t.Errorf("what can be read was not: %+v", last)
	}
}

func TestEncodeKeepsWhatItDoesNotKnow(t *testing.T) {
	for name, c := range map[string]struct {
		old   string
		value shape
		want  string
		more  bool
	}{
		"nothing before":          {``, shape{Rate: 1}, `{"rate":1,"Plain":0}`, false},
		"nothing unknown":         {`{"rate":5,"Plain":3,"promoted":"x"}`, shape{Rate: 1}, `{"rate":1,"Plain":0}`, false},
		"a field":                 {`{"rate":5,"burst":{"n":[1.50]}}`, shape{}, `{"Plain":0,"burst":{"n":[1.50]}}`, true},
		"within a field":          {`{"inner":{"a":1,"b":2}}`, shape{Inner: &inner{A: 3}}, `{"Plain":0,"inner":{"a":3,"b":2}}`, true},
		"within one that is zero": {`{"zero":{"a":0,"b":2}}`, shape{Zero: inner{A: 3}}, `{"Plain":0,"zero":{"a":3,"b":2}}`, true},
		"within one that is gone": {`{"inner":{"a":1,"b":2}}`, shape{}, `{"Plain":0}`, false},
		"within a map": {
			`{"named":{"x":{"a":1,"b":2},"y":{"a":1,"b":2}}}`,
			shape{Named: map[string]inner{"x": {A: 3}}},
			`{"Plain":0,"named":{"x":{"a":3,"b":2}}}`, true,
		},
		"within a list": {
			`{"list":[{"a":1,"b":2},{"a":2,"b":3}]}`,
			shape{List: []inner{{A: 9}, {A: 2}}},
			`{"Plain":0,"list":[{"a":9},{"a":2,"b":3}]}`, true,
		},
		"a list of another length": {`{"list":[{"a":1}],"rate":1}`, shape{List: []inner{{A: 1}, {A: 2}}}, `{"Plain":0,"list":[{"a":1},{"a":2}]}`, false},
	} {
		data, more, err := encode(&c.value, []byte(c.old))
		if diff := cmp.Diff(decoded(t, c.want), decoded(t, string(data))); diff != "" || more != c.more || err != nil {
			t.Errorf("%s: more %v, error %v (-want +got):\n%s", name, more, err, diff)
		}
	}
	data, more, err := encode(&[]inner{{A: 1}, {A: 5}}, []byte(`[{"a":1,"b":2}]`))
	if want := `[{"a":1,"b":2},{"a":5}]`; string(data) != want || !more || err != nil {
		t.Errorf("a list: %s, more %v, error %v", data, more, err)
	}
	for _, old := range []string{`?`, `{"inner":7}`} {
		if _, _, err := encode(&shape{}, []byte(old)); !errors.Is(err, store.ErrNewer) {
			t.Errorf("%s was replaced: %v", old, err)
		}
	}
	f := func() {}
	if _, _, err := encode(&f, nil); err == nil {
		t.Error("a function has a JSON")
	}
}

// decoded is JSON in a form to be compared, with numbers as they are written.
func decoded(t *testing.T, text string) (all map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}
