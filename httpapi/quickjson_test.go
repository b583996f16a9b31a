package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzQuickJSON holds quickJSON to encoding/json: it accepts exactly what that
// accepts and is not nested too deep.
func FuzzQuickJSON(f *testing.F) {
	for _, seed := range malformedBodies {
		f.Add([]byte(seed))
	}
	for _, seed := range []string{
		typicalJob, ` [ ] `, `{}`, "\t{ } \r\n", `[1 , 2]`, `[1,]`, `{"a":1,}`, `{"a" : {"b" : [ ] } }`, `{"a"}`, `{1:2}`, `[1}`, `{"a":1]`,
		`0`, `-0`, `01`, `-`, `1.`, `.5`, `1.5e+10`, `1e`, `1E-2`, `1e+`, `--1`, `+1`, `12a`, `0x1`, `true`, `tru`, `truefalse`, `nul`, `null `, `NaN`,
		`"\u00e9\ud83d"`, `"\u00g0"`, `"\x"`, `"\"`, `"a`, "\"a\nb\"", `""""`, `"a" "b"`, ``, ` `, "\xff", "\"\x7f\xff\"",
		nested(maxNesting), nested(maxNesting + 1), strings.Repeat("[", 20_000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want := json.Valid(data)
		if want {
			_, depth := valueEnd(data, skipSpace(data, 0))
			want = depth <= maxNesting
		}
		if got := quickJSON(data); got != want {
			t.Fatalf("quickJSON says %v to %q", got, data)
		}
		if want && utf8.Valid(data) != (checkJSON(data) == nil) {
			t.Fatalf("checkJSON says %v to %q", checkJSON(data), data)
		}
	})
}

func nested(levels int) string {
	return strings.Repeat(`{"a":[`, levels/2) + strings.Repeat("[", levels%2) + strings.Repeat("]", levels%2) + strings.Repeat("]}", levels/2)
}
