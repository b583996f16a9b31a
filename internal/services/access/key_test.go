package access

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/job"
)

const someDigest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func digestOf(t testing.TB, text string) Digest {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return Digest(b)
}

func TestParseKeys(t *testing.T) {
	token := newToken()
	digest := digestOf(t, someDigest)
	newYear := job.InstantOf(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		name, text string
		want       []Key
	}{
		{"nothing", "", nil},
		{"only space and comments", " \n# one, two\n\t# three\n,\n", nil},
		{
			"least", "scope=read id=k3v7x2ab sha256=" + someDigest,
			[]Key{{ID: "k3v7x2ab", Scope: Read, Namespace: "default", Digest: digest}},
		},
		{
			"all fields", "sha256=" + strings.ToUpper(someDigest) + "  id=k3v7x2ab rate=6000/m expires=2027-01-01T01:00:00+01:00 namespace=shop scope=admin name=ops@example.com",
			[]Key{{ID: "k3v7x2ab", Name: "ops@example.com", Scope: Admin, Namespace: "shop", Digest: digest, ExpiresAt: newYear, Rate: Rate{6000, time.Minute}}},
		},
		{
			"restricted to topics", "scope=write id=k3v7x2ab topic=orders-* topic=payments sha256=" + someDigest,
			[]Key{{ID: "k3v7x2ab", Scope: Write, Namespace: "default", Digest: digest, Topics: job.TopicSet{"orders-*", "payments"}}},
		},
		{
			"a token", "scope=write token=" + token.Reveal(),
			[]Key{{ID: token.id(), Scope: Write, Namespace: "default", Digest: token.digest()}},
		},
		{
			"several, by lines and commas", "# keys\r\nscope=read id=aaaaaaaa sha256=" + someDigest + ", scope=write id=bbbbbbbb sha256=" + someDigest + "\r\n\r\nscope=admin id=cccccccc sha256=" + someDigest + ",",
			[]Key{
				{ID: "aaaaaaaa", Scope: Read, Namespace: "default", Digest: digest},
				{ID: "bbbbbbbb", Scope: Write, Namespace: "default", Digest: digest},
				{ID: "cccccccc", Scope: Admin, Namespace: "default", Digest: digest},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseKeys(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseKeysTellsWhatIsWrong(t *testing.T) {
	token := newToken().Reveal()
	other := newToken().Reveal()
	for _, c := range []struct{ name, text, want string }{
		{"a bare token", token, "key 1: field 1 is none of scope="},
		{"an unknown field", "scope=read secret=" + token, "key 1: field 2 is none of"},
		{"a field twice", "scope=read scope=write token=" + token, "scope is given twice"},
		{"no scope", "token=" + token, "scope=admin is missing"},
		{"another scope", "scope=root token=" + token, "scope must be read, write, admin or consume"},
		{"the scope of nobody", "scope=none token=" + token, "scope must be"},
		{"no secret", "scope=read id=aaaaaaaa", "give id and sha256, or token"},
		{"no id", "scope=read sha256=" + someDigest, "give id and sha256, or token"},
		{"both forms", "scope=read id=aaaaaaaa token=" + token, "give either token, or id and sha256"},
		{"a mistyped token", "scope=read token=" + token[:50] + "!", "token has a wrong checksum"},
		{"a home-made token", "scope=read token=hunter2", "token does not begin with dh_; duehook apikey new makes one"},
		{"a short id", "scope=read id=abc sha256=" + someDigest, "id must be the 8 characters"},
		{"an id with other letters", "scope=read id=AAAAAAAA sha256=" + someDigest, "id must be the 8 characters"},
		{"a short digest", "scope=read id=aaaaaaaa sha256=9f86", "sha256 must have 64 hexadecimal digits"},
		{"no digest", "scope=read id=aaaaaaaa sha256=" + strings.Repeat("x", 64), "sha256 must have 64"},
		{"a day without time", "scope=read expires=2027-01-01 token=" + token, "expires must be a time with an offset"},
		{"before all times", "scope=read expires=1969-12-31T00:00:00Z token=" + token, "expires must be a time"},
		{"a bad rate", "scope=read rate=fast token=" + token, "rate must be requests/duration"},
		{"an empty name", "scope=read name= token=" + token, "name must not be empty"},
		{"an empty namespace", "scope=read namespace= token=" + token, "namespace must not be empty"},
		{"the same key twice", "scope=read token=" + token + ",scope=admin token=" + token, "key 2: an earlier key has the id " + token[3:11] + ", too"},
		{"each is told", "scope=x token=" + token + "\nscope=read token=" + other + "\nname=y", "key 3: scope="},
		{"too many", manyKeys(MaxKeys + 1), "there are 1001 keys; at most 1000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			keys, err := ParseKeys(c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) || keys != nil {
				t.Fatalf("got %v, %v; want %q", keys, err, c.want)
			}
			for _, secret := range []string{secretOf(token)[:12], secretOf(other)[:12], "hunter2"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error shows a secret: %v", err)
				}
			}
		})
	}
	if _, err := ParseKeys(manyKeys(MaxKeys)); err != nil {
		t.Errorf("as many keys as are allowed: %v", err)
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for range n {
		b.WriteString("scope=read token=" + newToken().Reveal() + "\n")
	}
	return b.String()
}

func anyKey(t *rapid.T) Key {
	k := Key{
		ID:        rapid.StringMatching(`[a-z2-7]{8}`).Draw(t, "id"),
		Name:      rapid.StringMatching(`([A-Za-z0-9_:@-]{1,20})?`).Draw(t, "name"),
		Scope:     rapid.SampledFrom([]Scope{Read, Write, Admin}).Draw(t, "scope"),
		Namespace: rapid.StringMatching(`[A-Za-z0-9_@-]{1,20}`).Draw(t, "namespace"),
		ExpiresAt: job.Instant(rapid.Int64Range(0, 253402300799999).Draw(t, "expires")),
		Digest:    Digest(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest")),
	}
	if rapid.Bool().Draw(t, "limited") {
		k.Rate = anyRate(t)
	}
	return k
}

func anyRate(t *rapid.T) Rate {
	return Rate{rapid.IntRange(1, maxRequests).Draw(t, "requests"), time.Duration(rapid.IntRange(1, 86400).Draw(t, "seconds")) * time.Second}
}

func TestLineIsWhatParseKeysReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := anyKey(t)
		got, err := ParseKeys(k.Line())
		if err != nil {
			t.Fatalf("%s: %v", k.Line(), err)
		}
		if diff := cmp.Diff([]Key{k}, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add("name=ci scope=write namespace=shop expires=2027-01-01T00:00:00Z rate=10/1s id=aaaaaaaa sha256=" + someDigest)
	f.Add("scope=read token=" + newToken().Reveal() + ", # no comment")
	f.Add("scope=read=write\n#\n,=,")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := ParseKeys(text)
		if err != nil {
			return
		}
		lines := make([]string, len(keys))
		for i := range keys {
			lines[i] = keys[i].Line()
			if s := keys[i].Scope; s != Read && s != Write && s != Admin {
				t.Errorf("a key has scope %v", s)
			}
		}
		again, err := ParseKeys(strings.Join(lines, "\n"))
		if err != nil {
			t.Fatalf("%q: %v", lines, err)
		}
		if diff := cmp.Diff(keys, again); diff != "" {
			t.Error(diff)
		}
	})
}
