package access

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/duehook/duehook/job"
)

// MaxKeys is the most keys that the settings, or both sources together, hold.
const MaxKeys = 1000

// DefaultNamespace is the namespace of a key that names none.
const DefaultNamespace = "default"

// Key is an API key as it is kept: with a digest in place of its token.
type Key struct {
	ID string
	// Name is for people: it stands beside the id in listings and in the log.
	Name  string
	Scope Scope
	// Namespace is that of the servers which the key is for.
	Namespace string
	// CreatedAt is zero for keys of the settings.
	CreatedAt job.Instant
	// ExpiresAt is when the key stops being valid; zero is never.
	ExpiresAt job.Instant
	// Rate is the key's own; zero is the server's default.
	Rate   Rate
	Digest Digest
	// Stored keys are in the store, the others in the settings.
	Stored bool
}

// Expired reports whether the key is no longer valid at now.
func (k *Key) Expired(now job.Instant) bool { return k.ExpiresAt != 0 && now >= k.ExpiresAt }

// Line is the key in the form that ParseKeys reads, with its digest.
func (k *Key) Line() string {
	var b strings.Builder
	field := func(name, value string) {
		if value == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name + "=" + value)
	}
	field("name", k.Name)
	field("id", k.ID)
	field("scope", k.Scope.String())
	field("namespace", k.Namespace)
	if k.ExpiresAt != 0 {
		field("expires", formatInstant(k.ExpiresAt))
	}
	field("rate", k.Rate.String())
	field("sha256", hex.EncodeToString(k.Digest[:]))
	return b.String()
}

// ParseKeys reads the keys of the settings. Keys are separated by line breaks
// or commas; a line that begins with # is a comment. A key is a row of
// name=value fields with spaces between them, in any order:
//
//	scope      read, write or admin; required
//	id, sha256 the key's id and the SHA-256 of its token in hexadecimal, or
//	token      the token itself, in place of these two
//	name       what people call the key
//	namespace  of the servers that the key is for; "default" when absent
//	expires    an RFC 3339 time; never when absent
//	rate       requests/duration, such as 100/1s; the server's default when absent
//
// Errors name the key by its place and do not show what might be secret.
func ParseKeys(text string) ([]Key, error) {
	var keys []Key
	var problems []error
	seen := map[string]bool{}
	for n, part := range keyTexts(text) {
		k, err := parseKey(part)
		if err == nil && seen[k.ID] {
			err = fmt.Errorf("the id %s is that of an earlier key", k.ID)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("key %d: %w", n+1, err))
			continue
		}
		seen[k.ID] = true
		keys = append(keys, k)
	}
	if len(keys) > MaxKeys {
		problems = append(problems, fmt.Errorf("there are %d keys; at most %d are allowed", len(keys), MaxKeys))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return keys, nil
}

// keyTexts cuts text into the texts of single keys.
func keyTexts(text string) []string {
	var parts []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for part := range strings.SplitSeq(line, ",") {
			if strings.TrimSpace(part) != "" {
				parts = append(parts, part)
			}
		}
	}
	return parts
}

// keyFields sets what a field of a key's text says.
var keyFields = map[string]func(k *Key, value string) error{
	"name":      func(k *Key, v string) error { k.Name = v; return job.CheckName(v) },
	"namespace": func(k *Key, v string) error { k.Namespace = v; return job.CheckName(v) },
	"scope":     func(k *Key, v string) (err error) { k.Scope, err = ParseScope(v); return err },
	"expires":   func(k *Key, v string) (err error) { k.ExpiresAt, err = parseInstant(v); return err },
	"rate":      func(k *Key, v string) (err error) { k.Rate, err = ParseRate(v); return err },
	"id":        setID,
	"sha256":    setDigest,
	"token":     setToken,
}

func setID(k *Key, value string) error {
	if len(value) != idLength || !isTokenText(value) {
		return fmt.Errorf("must be the %d characters of a token between its underscores", idLength)
	}
	k.ID = value
	return nil
}

func setDigest(k *Key, value string) error {
	digest, err := hex.DecodeString(value)
	if err != nil || len(digest) != len(k.Digest) {
		return fmt.Errorf("must have %d hexadecimal digits", hex.EncodedLen(len(k.Digest)))
	}
	k.Digest = Digest(digest)
	return nil
}

func setToken(k *Key, value string) error {
	t, err := parseToken(value)
	if err != nil {
		return fmt.Errorf("%w; duehook apikey new makes one", err)
	}
	k.ID, k.Digest = t.id(), t.digest()
	return nil
}

func parseKey(text string) (Key, error) {
	k := Key{Namespace: DefaultNamespace}
	given := map[string]bool{}
	for n, field := range strings.Fields(text) {
		name, value, ok := strings.Cut(field, "=")
		set := keyFields[name]
		switch {
		case !ok || set == nil:
			// What stands here may be a secret in the wrong place.
			return Key{}, fmt.Errorf("field %d is none of %s", n+1, keyFieldList)
		case given[name]:
			return Key{}, fmt.Errorf("%s is given twice", name)
		}
		given[name] = true
		if err := set(&k, value); err != nil {
			return Key{}, fmt.Errorf("%s %w", name, err)
		}
	}
	switch {
	case !given["scope"]:
		return Key{}, errors.New("scope=read, scope=write or scope=admin is missing")
	case given["token"] && (given["id"] || given["sha256"]):
		return Key{}, errors.New("give either token, or id and sha256")
	case !given["token"] && (!given["id"] || !given["sha256"]):
		return Key{}, errors.New("give id and sha256, or token")
	}
	return k, nil
}

const keyFieldList = "scope=, id=, sha256=, token=, name=, namespace=, expires=, rate="

var errInstant = errors.New(`must be a time with an offset, such as "2027-01-31T00:00:00Z"`)

func parseInstant(s string) (job.Instant, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.UnixMilli() <= 0 {
		return 0, errInstant
	}
	return job.InstantOf(t), nil
}

func formatInstant(i job.Instant) string { return i.Time().Format(time.RFC3339Nano) }
