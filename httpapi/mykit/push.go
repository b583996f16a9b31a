package mykit

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/httpapi/decode"
	"github.com/duehook/duehook/internal/app"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

// pushed is a job as a client writes it.
type pushed struct {
	Topic, ID, BizKey, Subtopic  string
	Made                         bool // the server made the id
	Body                         *string
	Delay, TTL, Status, Priority int64
	CreateTime                   *int64
}

// read reads a job as the original does: unknown members are ignored, names are case-sensitive, and
// numbers and texts may stand for each other. data was checked.
func read(data []byte) (*pushed, error) {
	data = jsonio.Trim(data)
	if data[0] != '{' {
		return nil, badRequest("The body must be a JSON object.")
	}
	p := &pushed{}
	texts := map[string]*string{"topic": &p.Topic, "id": &p.ID, "bizKey": &p.BizKey, "subtopic": &p.Subtopic}
	numbers := map[string]*int64{"delay": &p.Delay, "ttl": &p.TTL, "status": &p.Status, "priority": &p.Priority}
	for quoted, value := range jsonio.Members(data) {
		name, _ := jsonio.Unquote(quoted)
		var err error
		switch {
		case texts[name] != nil:
			var text *string
			if text, err = textOf(value); err == nil && text != nil {
				*texts[name] = *text
			}
		case numbers[name] != nil:
			err = setNumber(numbers[name], value)
		case name == "createTime" && decode.KindOf(value) != decode.KindNull:
			p.CreateTime = new(int64)
			err = setNumber(p.CreateTime, value)
		case name == "body":
			p.Body, err = textOf(value)
		}
		if err != nil {
			return nil, badRequest(name + " " + err.Error() + ".")
		}
	}
	return p, nil
}

// textOf is the text of a value; nil for null.
func textOf(value []byte) (*string, error) {
	switch decode.KindOf(value) {
	case decode.KindNull:
		return nil, nil
	case decode.KindString:
		text, ok := jsonio.Unquote(value)
		if !ok {
			return nil, errors.New(`has an incomplete \u escape`)
		}
		return &text, nil
	}
	if value[0] == '{' || value[0] == '[' {
		return nil, errors.New("must be a string, not " + decode.KindOf(value))
	}
	return new(string(value)), nil
}

// setNumber sets a whole number, which may be written as a text. An empty text is 0, as null is.
func setNumber(to *int64, value []byte) error {
	text, err := textOf(value)
	if err != nil || text == nil {
		return err
	}
	number := strings.TrimSpace(*text)
	if number == "" {
		return nil
	}
	if *to, err = strconv.ParseInt(number, 10, 64); err == nil {
		return nil
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || decode.KindOf(value) != decode.KindNumber || math.Abs(n) > 1<<62 {
		return fmt.Errorf("must be a whole number, not %s", httpapi.Shorten(*text))
	}
	*to = int64(n)
	return nil
}

// The headers of deliveries with what receivers of the original get beside the body. Other characters
// than those of URLs are percent-encoded.
const (
	headerID       = "Mykit-Id"
	headerSubtopic = "Mykit-Subtopic"
	headerBizKey   = "Mykit-Biz-Key"
	headerTTL      = "Mykit-Ttl"
)

// draft is the job of the domain. A priority delays it by as many milliseconds.
func (p *pushed) draft(now job.Instant) *job.Draft {
	id := nameOf(p.ID)
	d := &job.Draft{Topic: &p.Topic, ID: &id, Headers: map[string]string{}}
	if !p.Made {
		d.OnConflict = new(string(job.ConflictReplace))
	}
	created := int64(now)
	if p.CreateTime == nil {
		// The store's clock counts.
		d.Delay = new(job.Instant(max(sum(p.Delay, max(p.Priority, 0)), 0)).Sub(0))
	} else {
		created = *p.CreateTime
		d.At = new(job.Instant(max(sum(created, sum(p.Delay, max(p.Priority, 0))), 1)))
	}
	if job.CheckName(p.BizKey) == nil {
		d.BizKey = &p.BizKey
	}
	if p.Body != nil && *p.Body != "" {
		d.Body = &job.Body{Form: job.BodyText, Content: []byte(*p.Body)}
	}
	ttl := ""
	if p.TTL != 0 {
		ttl = strconv.FormatInt(p.TTL, 10)
	}
	for name, value := range map[string]string{headerID: p.ID, headerSubtopic: p.Subtopic, headerBizKey: p.BizKey, headerTTL: ttl} {
		if value != "" {
			d.Headers[name] = url.PathEscape(value)
		}
	}
	// A later push has other content, so it replaces the job.
	d.Dialect = &job.Dialect{Name: Name, Data: strconv.FormatInt(created, 10), Indexed: true}
	return d
}

// sum is a + b within the times that there are.
func sum(a, b int64) int64 {
	const most = math.MaxInt64 / int64(1e6) // as a time.Duration
	limit := func(n int64) int64 { return min(max(n, -most/2), most/2) }
	return limit(limit(a) + limit(b))
}

// nameOf is the job's id for an id of a client: the id itself if it is a name, otherwise a digest.
func nameOf(id string) string {
	if job.CheckName(id) == nil && !strings.HasPrefix(id, digestPrefix) {
		return id
	}
	digest := sha256.Sum256([]byte(id))
	return digestPrefix + hex.EncodeToString(digest[:16])
}

const digestPrefix = Name + ":"

// makeID makes an id in the form of the original: topic[:bizKey]:ip:number. A key that leaves no room
// is left out.
func (p *pushed) makeID(c *httpapi.Call) string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	number := strconv.FormatUint(binary.BigEndian.Uint64(random[:])>>1, 10)
	host := "127.0.0.1"
	if addr, ok := c.Request.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if ip, _, err := net.SplitHostPort(addr.String()); err == nil {
			host = strings.ReplaceAll(ip, "%", "-") // of a zone
		}
	}
	tail := host + ":" + number
	for _, id := range []string{p.Topic + ":" + p.BizKey + ":" + tail, p.Topic + ":" + tail} {
		if len(id) <= job.MaxName && job.CheckName(id) == nil && (p.BizKey != "" || !strings.Contains(id, "::")) {
			return id
		}
	}
	return tail
}

func (a *api) push(c *httpapi.Call) error {
	// An escaped character of the body has up to six bytes, and the other fields are short.
	buffer, err := c.ReadJSON(int64(6*a.App.Bounds().MaxBody) + 64<<10)
	if err != nil {
		return err
	}
	defer httpapi.Release(buffer)
	p, err := read(buffer.Bytes())
	if err != nil {
		a.App.Refuse(1, true)
		return err
	}
	if p.Made = p.ID == ""; p.Made {
		p.ID = p.makeID(c)
	}
	const restored = 5
	switch {
	case p.Topic == "":
		a.App.Refuse(1, true)
		return fail(c, noTopic)
	case p.Status != 0 && p.Status != restored:
		a.App.Refuse(1, true)
		return fail(c, fmt.Sprintf(stateFormat, httpapi.Shorten(p.ID)))
	}
	draft, q := p.draft(job.InstantOf(a.Clock.Now())), c.Query()
	dryRun, err := httpapi.Flag("dry_run", q.Get("dry_run"))
	if err != nil {
		return err
	}
	if q.Has("on_conflict") {
		draft.OnConflict = new(q.Get("on_conflict"))
	}
	reg, err := a.App.Prepare(draft, app.Origin{Pull: true, Trace: c.Trace(), Topics: c.Topics()})
	if err != nil {
		a.App.Refuse(1, httpapi.AsError(err).ClientsFault())
		return err
	}
	c.Target = reg.Key().String()
	registered, err := a.App.RegisterUnless(c.Context(), dryRun, reg)
	if err != nil {
		return err
	}
	if err := app.Refusal(&registered[0]); err != nil {
		return err
	}
	c.SetResult(app.OutcomeNames[registered[0].Outcome])
	return succeed(c, p.ID)
}
