package jsonio_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/duehook/duehook/internal/kit/jsonio"
)

// FuzzCheck holds Check to encoding/json: it accepts exactly what that
// accepts, is UTF-8 and is not nested too deep.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		"{\"id\":\"\xff\"}", "\ufeff{}", `// comment` + "\n{}", `{/**/}`, `{"delay":+1}`, `{"id" "a"}`, `{"a":1} x`, `{"a":1}{}`, ` [ ] `, `{}`, "\t{ } \r\n", `[1 , 2]`, `[1,]`, `{"a":1,}`, `{"a" : {"b" : [ ] } }`, `{"a"}`, `{1:2}`, `[1}`, `{"a":1]`,
		`0`, `-0`, `01`, `-`, `1.`, `.5`, `1.5e+10`, `1e`, `1E-2`, `1e+`, `--1`, `+1`, `12a`, `0x1`, `true`, `tru`, `truefalse`, `nul`, `null `, `NaN`,
		`"\u00e9\ud83d"`, `"\u00g0"`, `"\x"`, `"\"`, `"a`, "\"a\nb\"", `""""`, `"a" "b"`, ``, ` `, "\xff", "\"\x7f\xff\"", `{"a":1,"a":2}`,
		nested(jsonio.MaxNesting), nested(jsonio.MaxNesting + 1), `[` + strings.Repeat("[],", jsonio.MaxNesting) + nested(jsonio.MaxNesting-1) + `]`,
		strings.Repeat("[", 20_000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want := json.Valid(data) && utf8.Valid(data) && depthOf(data) <= jsonio.MaxNesting
		if err := jsonio.Check(data); (err == nil) != want {
			t.Fatalf("Check says %v to %q", err, data)
		}
	})
}

// TestAppendSorted has values in rows: those of a row have one form, which no other row has.
func TestAppendSorted(t *testing.T) {
	rows := map[string]int{}
	for i, row := range [][]string{
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, " {\n\"b\" : 2 ,\"a\":1\t}"},
		{`{"a":1,"b":3}`},
		{`{"a":2,"b":1}`},
		{`{"a":1}`},
		{`{"a":1,"a":1}`},
		{`{"a":1.0}`},
		{`{"\u0061":1}`},
		{`{"a":{"x":[1,{"d":1,"c":2}],"y":0},"a":1}`, `{"a":1,"a":{"y":0,"x":[1,{"c":2,"d":1}]}}`},
		{`[1,2]`, `[ 1 , 2 ]`},
		{`[2,1]`},
		{`[12]`},
		{`[[1],2]`},
		{`[[1,2]]`},
		{`{}`, `{ }`},
		{`[]`, ` [ ]`},
		{`null`, ` null`},
		{`"null"`},
		{`""`},
		{`" "`},
		{`1`},
		{`-1e9`},
		{`true`},
		{`{"a\\\\":"b\"","c,":"}"}`, `{"c,":"}","a\\\\":"b\""}`},
		{`{"a":"b,c:"}`},
		{`{"a":"b","c":""}`, `{"c":"","a":"b"}`},
	} {
		for _, value := range row {
			if err := jsonio.Check([]byte(value)); err != nil {
				t.Fatalf("%s: %v", value, err)
			}
			form := string(jsonio.AppendSorted([]byte("before"), []byte(value)))
			if other, known := rows[form]; known && other != i || !known && value != row[0] {
				t.Errorf("%s has the form %s, as row %d", value, form, other)
			}
			rows[form] = i
		}
	}
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
