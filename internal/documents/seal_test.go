package documents

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/testing/must"
	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/store"
)

func masterKey(t testing.TB) MasterKey {
	t.Helper()
	key, err := ParseMasterKey(GenerateMasterKey())
	must.OK(t, err)
	return key
}

// sealed returns the collection of notes of a node with some master keys.
func sealed(s store.Documents, keys ...MasterKey) (*Collection[note], *Seal) {
	seal := NewSeal(keys...)
	return New(Options[note]{Store: s, Kind: "note", Seal: seal}), seal
}

func TestSealedDocuments(t *testing.T) {
	docs := testenv.NewDocuments(t)
	c, _ := sealed(docs, masterKey(t))
	const secret = "correct horse battery staple"
	seen := map[string]bool{}
	for range 3 { // equal contents must not be seen to be equal
		d, err := c.Update(t.Context(), "a", write(secret))
		must.OK(t, err)
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))[4:20]} {
			if stored := docs.Dump("note"); strings.Contains(stored, form) || seen[stored] {
				t.Errorf("stored %s", stored)
			}
		}
		seen[docs.Dump("note")] = true
		must.OK(t, c.Delete(t.Context(), &d))
	}
	d, err := c.Update(t.Context(), "a", write(secret))
	must.OK(t, err)
	// Whoever can write to the store must not make one document another one.
	other := New(Options[note]{Store: docs, Kind: "letter", Seal: c.seal})
	docs.Overwrite("note", "b", string(d.Data))
	docs.Overwrite("letter", "a", string(d.Data))
	for _, swapped := range []func() error{
		func() error { _, err := c.Get(t.Context(), "b"); return err },
		func() error { _, err := other.Get(t.Context(), "a"); return err },
		func() error { _, err := c.Update(t.Context(), "b", write("y")); return err },
	} {
		if err := swapped(); !errors.Is(err, ErrDamaged) {
			t.Errorf("another document: %v", err)
		}
	}
	// Errors of a content that another version wrote do not quote it.
	strict := New(Options[note]{Store: docs, Kind: "note", Seal: c.seal, Check: func(v *note) error { return errors.New(v.Text) }})
	if _, err := strict.Get(t.Context(), "a"); !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), secret) {
		t.Errorf("unknown content: %v", err)
	}
}

func TestWithoutAMasterKey(t *testing.T) {
	docs := testenv.NewDocuments(t)
	c, seal := sealed(docs)
	if _, err := c.Update(t.Context(), "a", write("x")); !errors.Is(err, ErrNoMasterKey) || docs.Dump("note") != "" {
		t.Errorf("%v; stored %q", err, docs.Dump("note"))
	}
	used, err := seal.Used(t.Context())
	done, errReseal := seal.Reseal(t.Context())
	if used || done != 0 || err != nil || errReseal != nil {
		t.Errorf("used %t, resealed %d, %v, %v", used, done, err, errReseal)
	}
	seal.Use(masterKey(t))
	if _, err := c.Update(t.Context(), "a", write("x")); err != nil {
		t.Error(err)
	}
	if used, err := seal.Used(t.Context()); !used || err != nil {
		t.Errorf("used %t, %v", used, err)
	}
	// The id in the message is the one that is looked for.
	key, _ := seal.First()
	other, seal := sealed(docs, masterKey(t), masterKey(t))
	if _, err := other.Get(t.Context(), "a"); !errors.Is(err, ErrMasterKey) || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), key.ID()) {
		t.Errorf("another master key: %v", err)
	}
	docs.Fail(store.ErrUnavailable, "list")
	_, err = seal.Used(t.Context())
	_, errReseal = seal.Reseal(t.Context())
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(errReseal, store.ErrUnavailable) {
		t.Errorf("in an outage: %v, %v", err, errReseal)
	}
}

func TestMasterKeyIsChangedInSteps(t *testing.T) {
	docs, before, after := testenv.NewDocuments(t), masterKey(t), masterKey(t)
	text := func(name string, keys ...MasterKey) string {
		t.Helper()
		c, _ := sealed(docs, keys...)
		d, err := c.Get(t.Context(), name)
		must.OK(t, err)
		return d.Value.Text
	}
	reseal := func(want int, keys ...MasterKey) {
		t.Helper()
		_, seal := sealed(docs, keys...)
		done, err := seal.Reseal(t.Context())
		must.OK(t, err)
		must.Equal(t, "resealed", done, want)
	}
	c, _ := sealed(docs, before)
	d, err := c.Update(t.Context(), "a", write("x"))
	must.OK(t, err)
	c, _ = sealed(docs, before, after) // knows the new key, seals with the old
	_, err = c.Update(t.Context(), "b", write("y"))
	must.OK(t, err)
	must.Equal(t, "a node with the old key reads", text("b", before), "y")
	reseal(0, before, after)
	reseal(2, after, before)
	reseal(0, after, before)
	must.Equal(t, "with the new key", text("a", after)+text("b", after), "xy")

	docs.Overwrite("note", "a", "garbage")
	docs.Overwrite("note", "c", string(d.Data)) // sealed for another place
	_, seal := sealed(docs, before, after)
	if done, err := seal.Reseal(t.Context()); done != 1 || !errors.Is(err, ErrDamaged) {
		t.Errorf("beside damaged ones: resealed %d, %v", done, err)
	}
}

func FuzzSealedDocuments(f *testing.F) {
	key := masterKey(f)
	c, seal := sealed(nil, key)
	good, err := seal.seal("note", "a", []byte("{}"))
	must.OK(f, err)
	for _, seed := range []string{
		"", "null", "[]", "{}", `{"form":1}`, `{"form":2,"key":"","box":""}`, `{"form":1,"key":"` + key.ID() + `","box":"AAAA"}`,
		`{"form":1,"key":"` + key.ID() + `"}`, `{"form":1,"key":1}`, `{"form":1,"box":"!"}`, `{"more":1}`, string(good[:40]),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := c.Decode(store.Document{Kind: "note", Name: "a", Data: data})
		if !errors.Is(d.Err, ErrDamaged) && !errors.Is(d.Err, ErrMasterKey) {
			t.Errorf("%q: %v", data, d.Err)
		}
	})
}

func TestParseMasterKey(t *testing.T) {
	text := GenerateMasterKey()
	key, err := ParseMasterKey(text)
	must.OK(t, err)
	again, err := ParseMasterKey(" " + text + "\n")
	must.OK(t, err)
	if key.ID() != again.ID() || !bytes.Equal(key.Derive("a", 32), again.Derive("a", 32)) || key.ID() == masterKey(t).ID() {
		t.Errorf("%v and %v", key, again)
	}
	if bytes.Equal(key.Derive("a", 32), key.Derive("b", 32)) || len(key.Derive("a", 24)) != 24 {
		t.Error("all purposes get the same")
	}
	for _, tt := range []struct{ text, why string }{
		{"", "32 to 1024 bytes, not 0"},
		{"correct horse battery staple", "base64"},
		{text[:20] + "\n" + text[20:], "base64"},
		{base64.StdEncoding.EncodeToString(make([]byte, 31)), "32 to 1024 bytes, not 31"},
		{base64.StdEncoding.EncodeToString(make([]byte, 1025)), "32 to 1024 bytes, not 1025"},
	} {
		if _, err := ParseMasterKey(tt.text); err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%v; want %q", err, tt.why)
		}
	}
}

// What is logged by mistake must not be a secret.
func TestMasterKeysHideThemselves(t *testing.T) {
	text := GenerateMasterKey()
	key, err := ParseMasterKey(text)
	must.OK(t, err)
	raw, err := base64.StdEncoding.DecodeString(text)
	must.OK(t, err)
	for _, shown := range []any{key, &key, []MasterKey{key}, NewSeal(key), Options[note]{Seal: NewSeal(key)}} {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", shown)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "x", shown)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "x", shown)
		for _, hidden := range []string{text, string(raw), fmt.Sprintf("%x", raw), fmt.Sprintf("%d", raw)} {
			if strings.Contains(out.String(), hidden) {
				t.Errorf("shown:\n%s", out.String())
			}
		}
	}
	must.Equal(t, "formatted", fmt.Sprint(key), "master key "+key.ID())
}
