package signing_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/store"
)

func TestSecretsAreNotKeptInTheClear(t *testing.T) {
	nodes, docs, _ := cluster(t, 1)
	n := nodes[0]
	own, _, err := n.Rotate(t.Context(), "t", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{n.made, own} {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{secret, secret[10:30], string(raw), base64.StdEncoding.EncodeToString([]byte(secret))[4:30]} {
			if strings.Contains(docs.dump(), form) {
				t.Errorf("kept:\n%s", docs.dump())
			}
		}
	}
}

// Equal content must not be seen to be equal.
func TestEachSealingDiffers(t *testing.T) {
	nodes, docs, _ := cluster(t, 1)
	secret := signing.NewSecret().Reveal()
	seen := map[string]bool{}
	for range 3 {
		if _, err := nodes[0].Set(t.Context(), "t", secret, 0); err != nil {
			t.Fatal(err)
		}
		d, err := store.ReadDocument(t.Context(), docs, kindTopic, "t")
		if err != nil || seen[string(d.Data)] {
			t.Errorf("%v; seen before: %s", err, d.Data)
		}
		seen[string(d.Data)] = true
		if err := nodes[0].Delete(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWrongMasterKey(t *testing.T) {
	nodes, docs, c := cluster(t, 1)
	if _, _, err := nodes[0].Rotate(t.Context(), "t", 0); err != nil {
		t.Fatal(err)
	}
	k := open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{masterKey(t), masterKey(t)}, Clock: c})
	errDefault := k.EnsureDefault(t.Context())
	look(node{Keyring: k, t: t})
	_, errSign := k.Sign(t.Context(), "t", "id", c.Now(), nil)
	_, errOther := k.Sign(t.Context(), "u", "id", c.Now(), nil)
	_, errInfo := k.Info(t.Context(), "t")
	_, _, errRotate := k.Rotate(t.Context(), "t", 0)
	for name, err := range map[string]error{
		"EnsureDefault": errDefault, "Sign": errSign, "Sign by default": errOther, "Info": errInfo, "Rotate": errRotate,
	} {
		if !errors.Is(err, signing.ErrMasterKey) || errors.Is(err, signing.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The id in the message is the one that is looked for.
	var box struct{ Key string }
	d, err := store.ReadDocument(t.Context(), docs, kindTopic, "t")
	if err != nil || json.Unmarshal(d.Data, &box) != nil || !strings.Contains(errSign.Error(), box.Key) {
		t.Errorf("%v; want the id %q", errSign, box.Key)
	}
}

func TestMasterKeyIsChangedInSteps(t *testing.T) {
	docs, c, before, after := newDocuments(), newClock(), masterKey(t), masterKey(t)
	start := func(keys ...signing.MasterKey) node {
		return node{t: t, Keyring: open(t, signing.Options{Documents: docs, MasterKeys: keys, Clock: c})}
	}
	a := begun(t, start(before).Keyring)
	own, _, err := a.Rotate(t.Context(), "t", 0)
	if err != nil {
		t.Fatal(err)
	}
	b := start(before, after) // knows the new key, seals with the old
	if n, err := b.Reseal(t.Context()); n != 0 || err != nil {
		t.Errorf("resealed %d, %v", n, err)
	}
	if _, err := b.Set(t.Context(), "u", own, 0); err != nil {
		t.Fatal(err)
	}
	look(a)
	a.wantSigned("u", c.Now(), own)

	d := start(after, before)
	look(d)
	d.wantSigned("t", c.Now(), own)
	if n, err := d.Reseal(t.Context()); n != 3 || err != nil {
		t.Errorf("resealed %d, %v; want 3", n, err)
	}
	if n, err := d.Reseal(t.Context()); n != 0 || err != nil {
		t.Errorf("resealed %d again, %v", n, err)
	}
	e := start(after)
	// A node that was forgotten, the last one, goes on with what it knows.
	for _, n := range []node{b, d, e, a} {
		look(n)
		n.wantSigned("t", c.Now(), own)
		n.wantSigned("v", c.Now(), a.made)
	}
}

func TestResealGoesOnAfterErrors(t *testing.T) {
	docs, c, before, after := newDocuments(), newClock(), masterKey(t), masterKey(t)
	k := open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{before}, Clock: c})
	for _, topic := range []string{"a", "b", "c"} {
		if _, _, err := k.Rotate(t.Context(), topic, 0); err != nil {
			t.Fatal(err)
		}
	}
	docs.overwrite(false, func(name string, old []byte) []byte {
		if name == "b" {
			return []byte("garbage")
		}
		return old
	})
	k = open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{after, before}, Clock: c})
	if n, err := k.Reseal(t.Context()); n != 2 || !errors.Is(err, signing.ErrDamaged) {
		t.Errorf("resealed %d, %v", n, err)
	}
	docs.fail(errDown, "list")
	if n, err := k.Reseal(t.Context()); n != 0 || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("resealed %d, %v", n, err)
	}
}

// Somebody who can write to the store must not make one topic's deliveries
// carry another's signatures.
func TestSwappedDocumentsAreRefused(t *testing.T) {
	docs, c := newDocuments(), newClock()
	o := signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{masterKey(t)}, Clock: c}
	writer := begun(t, open(t, o))
	// The default's document has the same name, in another kind.
	const a, b = "default", "b"
	for _, topic := range []string{a, b} {
		if _, _, err := writer.Rotate(t.Context(), topic, 0); err != nil {
			t.Fatal(err)
		}
	}
	taken, err := store.ReadDocument(t.Context(), docs, kindTopic, a)
	if err != nil {
		t.Fatal(err)
	}
	docs.overwrite(false, func(string, []byte) []byte { return taken.Data })
	docs.overwrite(true, func(string, []byte) []byte { return taken.Data })
	n := node{Keyring: open(t, o), t: t}
	look(n)
	if _, err := n.Sign(t.Context(), a, "id", c.Now(), nil); err != nil {
		t.Errorf("in its place: %v", err)
	}
	for _, topic := range []string{b, "by default"} {
		if _, err := n.Sign(t.Context(), topic, "id", c.Now(), nil); !errors.Is(err, signing.ErrDamaged) {
			t.Errorf("%s: %v", topic, err)
		}
	}
}

func FuzzStoredSecrets(f *testing.F) {
	docs, c, key := newDocuments(), newClock(), masterKey(f)
	k := open(f, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{key}, Clock: c})
	if err := k.EnsureDefault(f.Context()); err != nil {
		f.Fatal(err)
	}
	good, err := store.ReadDocument(f.Context(), docs, kindTopic, defaultName)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"", "null", "[]", "{}", `{"form":1}`, `{"form":2,"key":"","box":""}`, `{"form":1,"key":"` + key.ID() + `","box":"AAAA"}`,
		`{"form":1,"key":"` + key.ID() + `"}`, `{"form":1,"key":1}`, `{"form":1,"box":"!"}`, `{"more":1}`, string(good.Data[:40]),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs := newDocuments()
		if _, err := store.PutDocument(t.Context(), docs, store.Document{Kind: kindTopic, Name: defaultName, Data: data}); err != nil {
			t.Fatal(err)
		}
		k := open(t, signing.Options{Documents: docs, MasterKeys: []signing.MasterKey{key}, Clock: c})
		errStart := k.EnsureDefault(t.Context())
		look(node{Keyring: k, t: t})
		_, errSign := k.Sign(t.Context(), "t", "id", c.Now(), nil)
		for _, err := range []error{errStart, errSign} {
			if !errors.Is(err, signing.ErrDamaged) && !errors.Is(err, signing.ErrMasterKey) {
				t.Errorf("%q: %v", data, err)
			}
		}
	})
}
