package access

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
)

// MaxKeys bounds the keys of the settings, and of both sources together.
const MaxKeys = 1000

// DefaultNamespace is the namespace of a key without one.
const DefaultNamespace = "default"

// Key is an API key without its token. Its JSON is the content of a document.
type Key struct {
	documents.Stamp        // zero for keys of the settings
	ID              string `json:"-"`
	// Name is a label for people, in lists and in the log.
	Name  string `json:"name,omitempty"`
	Scope Scope  `json:"scope"`
	// Namespace is the namespace of the nodes that accept the key.
	Namespace string `json:"namespace"`
	// ExpiresAt is the end of the key's validity; zero: none.
	ExpiresAt job.Instant `json:"expires_at,omitempty"`
	// Topics restricts the key to topics; empty: all.
	Topics job.TopicSet `json:"topics,omitempty"`
	// Rate is the key's own limit; zero: the node's default.
	Rate   Rate   `json:"rate,omitzero"`
	Digest Digest `json:"sha256"`
	// Stored keys are in the store, the others in the settings.
	Stored bool `json:"-"`
}

// Expired reports whether the key has expired at now.
func (k *Key) Expired(now job.Instant) bool { return k.ExpiresAt != 0 && now >= k.ExpiresAt }

// Line returns the key in the form of ParseKeys, with its digest.
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
	for _, pattern := range k.Topics {
		field("topic", pattern)
	}
	field("sha256", k.Digest.String())
	return b.String()
}

// ParseKeys reads the keys of the settings. Line breaks or commas separate keys; lines
// that begin with # are comments. A key consists of name=value fields, separated by
// spaces, in any order:
//
//	scope      read, write, admin or consume; required
//	id, sha256 the key's id and the SHA-256 of its token in hexadecimal, or
//	token      the token itself instead of these two
//	name       a label
//	namespace  namespace of the nodes that accept the key; default: "default"
//	expires    an RFC 3339 time; default: never
//	rate       requests/duration, such as 100/1s; default: that of the node
//	topic      a topic, or the beginning of topics and *; may be repeated; default: all
//
// Errors name a key by its position and contain nothing that may be secret.
func ParseKeys(text string) ([]Key, error) {
	var keys []Key
	var problems []error
	seen := map[string]bool{}
	for n, part := range keyTexts(text) {
		k, err := parseKey(part)
		if err == nil && seen[k.ID] {
			err = fmt.Errorf("an earlier key has the id %s, too", k.ID)
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

// keyTexts splits text into the texts of keys.
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

// keyFields sets the fields of a key from text.
var keyFields = map[string]func(k *Key, value string) error{
	"name":      func(k *Key, v string) error { k.Name = v; return job.CheckName(v) },
	"namespace": func(k *Key, v string) error { k.Namespace = v; return job.CheckName(v) },
	"scope":     func(k *Key, v string) error { return k.Scope.UnmarshalText([]byte(v)) },
	"expires":   func(k *Key, v string) (err error) { k.ExpiresAt, err = parseInstant(v); return err },
	"rate":      func(k *Key, v string) error { return k.Rate.UnmarshalText([]byte(v)) },
	"topic":     addTopic,
	"id":        setID,
	"sha256":    func(k *Key, v string) error { return k.Digest.UnmarshalText([]byte(v)) },
	"token":     setToken,
}

func addTopic(k *Key, pattern string) error {
	if len(k.Topics) == job.MaxTopicSet {
		return fmt.Errorf("must be given at most %d times", job.MaxTopicSet)
	}
	k.Topics = append(k.Topics, pattern)
	return job.CheckTopicPattern(pattern)
}

func setID(k *Key, value string) error {
	if !isID(value) {
		return fmt.Errorf("must be the %d characters of a token between its underscores", idLength)
	}
	k.ID = value
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
			// The field may be a misplaced secret.
			return Key{}, fmt.Errorf("field %d is none of %s", n+1, keyFieldList)
		case given[name] && name != "topic":
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

const keyFieldList = "scope=, id=, sha256=, token=, name=, namespace=, expires=, rate=, topic="

var errInstant = errors.New(`must be a time with an offset, such as "2027-01-31T00:00:00Z"`)

func parseInstant(s string) (job.Instant, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.UnixMilli() <= 0 {
		return 0, errInstant
	}
	return job.InstantOf(t), nil
}

func formatInstant(i job.Instant) string { return i.Time().Format(time.RFC3339Nano) }
