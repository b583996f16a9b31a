package moving

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/client"
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

// camelliaJob translates a message; false: it has ended.
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
	at := time.UnixMilli(max(e.score, m.TriggerTime)) // a consumer has the message until its score
	o := Options{Pull: true}
	j := Job{Registration: o.registration(topic, e.id, "", at, nil), Err: err}
	to := &j.Registration
	to.BodyText = m.Msg
	to.Retry = &client.Retry{Steps: []client.Duration{0}, Limit: new(m.MaxRetry - m.Retry)}
	left := time.UnixMilli(m.ExpireTime).Sub(r.Clock.Now())
	to.TTL = client.Duration(left)
	switch {
	case err != nil:
		j.Err = errors.New("it is no message of camellia-delay-queue")
	case left <= 0:
		j.Err = errors.New("it has expired")
	case m.Retry > m.MaxRetry:
		j.Err = errors.New("its deliveries are exhausted")
	}
	return j, true
}
