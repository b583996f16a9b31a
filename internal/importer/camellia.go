package importer

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/job"
)

// camellia reads the messages of camellia-delay-queue: of each topic those that wait, that are ready
// and that a consumer has.
func (r *reader) camellia(ctx context.Context) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		ns, topics := r.Set["namespace"], 0
		for _, key := range []string{"camellia_delay_queue_topics|", "camellia_delay_queue_topics_tmp|"} {
			for page, err := range r.scored(ctx, key+ns) {
				if err != nil {
					yield(Job{}, err)
					return
				}
				for _, topic := range page {
					if topics++; !r.camelliaTopic(ctx, topic.id, yield) {
						return
					}
				}
			}
		}
		if topics == 0 {
			yield(Job{}, r.nothing(ctx, "topics of camellia-delay-queue in the namespace "+ns))
		}
	}
}

func (r *reader) camelliaTopic(ctx context.Context, topic string, yield func(Job, error) bool) bool {
	ns := r.Set["namespace"]
	key := func(part string) string { return "camellia_delay_queue_" + part + "|{|" + ns + "|" + topic + "|}" }
	message := func(p redis.Pipeliner, id string) *redis.StringCmd {
		return p.Get(ctx, "camellia_delay_queue_msg|"+ns+"|"+topic+"|"+id)
	}
	for _, pages := range []iter.Seq2[[]entry, error]{
		r.scored(ctx, key("waiting")), r.listed(ctx, key("ready"), false), r.scored(ctx, key("ack")),
	} {
		if !r.found(ctx, pages, message, func(e entry, data []byte) bool {
			j, waits := r.camelliaJob(topic, e, data)
			return !waits || yield(j, nil)
		}, yield) {
			return false
		}
	}
	return true
}

// camelliaJob has a message sent by the dialect of camellia-delay-queue; false: it has ended.
func (r *reader) camelliaJob(topic string, e entry, data []byte) (Job, bool) {
	var m struct {
		Msg                     string
		TriggerTime, ExpireTime int64
		MaxRetry, Retry, Status int
	}
	const lastWaiting = 3 // waiting, ready, consuming
	err := json.Unmarshal(data, &m)
	if err == nil && m.Status > lastWaiting {
		return Job{}, false
	}
	at, left := time.UnixMilli(max(e.score, m.TriggerTime)), time.UnixMilli(m.ExpireTime).Sub(r.Clock.Now()) // a consumer has the message until its score
	j := Job{Registration: client.Registration{Topic: job.NameOf(topic), ID: job.NameOf(e.id), At: at}}
	switch {
	case err != nil:
		j.Err = errors.New("it is no message of camellia-delay-queue")
	case left <= 0:
		j.Err = errors.New("it has expired")
	case m.Retry > m.MaxRetry:
		j.Err = errors.New("its deliveries are exhausted")
	}
	form := url.Values{
		"topic": {topic}, "msgId": {e.id}, "msg": {m.Msg}, "maxRetry": {strconv.Itoa(m.MaxRetry - m.Retry)},
		"triggerTime": {strconv.FormatInt(at.UnixMilli(), 10)}, "expireTime": {strconv.FormatInt(m.ExpireTime, 10)},
	}
	j.Call = &Call{
		Dialect: "camellia", Path: "/camellia/delayQueue/sendMsg?on_conflict=once",
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: []byte(form.Encode()),
	}
	if r.DryRun {
		j.Call.Path += "&dry_run=true"
	}
	return j, true
}
