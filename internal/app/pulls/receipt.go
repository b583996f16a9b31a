package pulls

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// maxReceipt bounds a receipt: a key, a token and a time in base64.
const maxReceipt = 2 * (2*job.MaxName + 64)

// receipt names a claim. Its token is the fencing token.
type receipt struct {
	key   job.Key
	token uint64
	at    job.Instant // of the claim
}

func receiptOf(c *store.Claimed) receipt {
	return receipt{key: c.Job.Key, token: c.Job.Token, at: c.Now}
}

// Receipt is the receipt of the lease of a running job, for consumers that name the job instead.
func (m *Manager) Receipt(j *job.Job) string {
	if text, ok := m.Last(j.Key); ok {
		if r, _ := parseReceipt(text); r.token == j.Token {
			return text
		}
	}
	return receipt{key: j.Key, token: j.Token, at: m.o.Time.Instant()}.String() // when it was claimed is not known here
}

// Last is the receipt of the last lease of a job that this node remembers.
func (m *Manager) Last(key job.Key) (receipt string, ok bool) { return m.leased.last(key) }

// String is what consumers get.
func (r receipt) String() string {
	text := strconv.FormatUint(r.token, 36) + " " + strconv.FormatInt(int64(r.at), 36) + " " + r.key.String()
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// parseReceipt reads what String wrote.
func parseReceipt(s string) (r receipt, ok bool) {
	if len(s) > maxReceipt {
		return r, false
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	parts := strings.SplitN(string(text), " ", 3)
	if err != nil || len(parts) != 3 {
		return r, false
	}
	token, errToken := strconv.ParseUint(parts[0], 36, 64)
	at, errAt := strconv.ParseInt(parts[1], 36, 64)
	key, errKey := job.ParseKey(parts[2])
	if errToken != nil || errAt != nil || errKey != nil || job.CheckName(key.Topic) != nil || job.CheckName(key.ID) != nil {
		return r, false
	}
	return receipt{key: key, token: token, at: job.Instant(at)}, true
}
