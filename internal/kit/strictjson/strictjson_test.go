package strictjson_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/duehook/duehook/internal/kit/strictjson"
)

// FuzzCheck holds Check to encoding/json: it accepts exactly what that
// accepts, is UTF-8 and is not nested too deep.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		"{\"id\":\"\xff\"}", "\ufeff{}", `// comment` + "\n{}", `{/**/}`, `{"delay":+1}`, `{"id" "a"}`, `{"a":1} x`, `{"a":1}{}`, ` [ ] `, `{}`, "\t{ } \r\n", `[1 , 2]`, `[1,]`, `{"a":1,}`, `{"a" : {"b" : [ ] } }`, `{"a"}`, `{1:2}`, `[1}`, `{"a":1]`,
		`0`, `-0`, `01`, `-`, `1.`, `.5`, `1.5e+10`, `1e`, `1E-2`, `1e+`, `--1`, `+1`, `12a`, `0x1`, `true`, `tru`, `truefalse`, `nul`, `null `, `NaN`,
		`"\u00e9\ud83d"`, `"\u00g0"`, `"\x"`, `"\"`, `"a`, "\"a\nb\"", `""""`, `"a" "b"`, ``, ` `, "\xff", "\"\x7f\xff\"", `{"a":1,"a":2}`,
		nested(strictjson.MaxNesting), nested(strictjson.MaxNesting + 1), `[` + strings.Repeat("[],", strictjson.MaxNesting) + nested(strictjson.MaxNesting-1) + `]`,
		strings.Repeat("[", 20_000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want := json.Valid(data) && utf8.Valid(data) && depthOf(data) <= strictjson.MaxNesting
		if err := strictjson.Check(data); (err == nil) != want {
			t.Fatalf("Check says %v to %q", err, data)
		}
	})
}

// depthOf is how deep JSON is nested.
func depthOf(data []byte) (deepest int) {
	d := json.NewDecoder(bytes.NewReader(data))
	for level := 0; ; {
		switch token, err := d.Token(); {
		case err != nil:
			return deepest
		case token == json.Delim('{'), token == json.Delim('['):
			level++
			deepest = max(deepest, level)
		case token == json.Delim('}'), token == json.Delim(']'):
			level--
		}
	}
}

func nested(levels int) string {
	return strings.Repeat(`{"a":[`, levels/2) + strings.Repeat("[", levels%2) + strings.Repeat("]", levels%2) + strings.Repeat("]}", levels/2)
}
