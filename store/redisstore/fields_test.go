package redisstore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/duehook/duehook/internal/testing/testenv"
)

func TestFields(t *testing.T) {
	t.Parallel()
	s, err := prepare(Options{URL: testenv.StartRedis(t).URL()}, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	sh := s.shards[0]
	hash := sh.prefix + "hash"

	// Another node changes the field between the look and the change.
	looks := 0
	ok(t, "updateField", s.updateField(t.Context(), sh, hash, "a", func(was string) (string, error) {
		if looks++; looks == 1 {
			ok(t, "HSET", s.db.HSet(t.Context(), hash, "a", "theirs").Err())
		}
		return was + " and mine", nil
	}))
	if is := s.db.HGet(t.Context(), hash, "a").Val(); is != "theirs and mine" || looks != 2 {
		t.Errorf("%q after %d looks", is, looks)
	}

	ok(t, "HSET", s.db.HSet(t.Context(), hash, "a", "1\ndata", "b", "text", "c", "text").Err())
	for _, tc := range []struct {
		name, was, now string
		want           int64
	}{
		{"a", "2\n", "3\nnew", fieldDiffers},
		{"a", "1\nda", "2\nnew", fieldDiffers},
		{"a", "1\n", "2\nnew", fieldChanged},
		{"a", "1\n", "2\nnew", fieldKept},
		{"b", "tex", "new", fieldDiffers},
		{"b", "", "new", fieldDiffers},
		{"b", "text", "", fieldChanged},
		{"b", "text", "", fieldKept},
		{"b", "text", "new", fieldDiffers},
		{"b", "", "new", fieldChanged},
	} {
		t.Run(fmt.Sprintf("%s from %q to %q", tc.name, tc.was, tc.now), func(t *testing.T) {
			done, err := changeFields(t.Context(), s.run, fieldsScript, sh, []field{{hash, tc.name, tc.was, tc.now}, {hash, "c", "text", "text"}})
			ok(t, "changeFields", err)
			if !slices.Equal(done, []int64{tc.want, fieldKept}) {
				t.Errorf("%d, want %d", done, tc.want)
			}
		})
	}
}
