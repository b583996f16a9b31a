package importer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/duehook/duehook/client"
)

// asynqSets are the sets and lists of an asynq queue. Those that are lists have no times: their tasks
// are due.
var asynqSets = []string{"scheduled", "retry", "pending", "active", "archived"}

// headerAsynqType has the type of the task.
const headerAsynqType = "Asynq-Type"

// asynq reads the tasks of all queues of asynq. A queue is a topic.
func (r *reader) asynq(ctx context.Context) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		chosen, err := r.asynqChosen()
		var queues []string
		if err == nil {
			queues, err = r.redis.SMembers(ctx, "asynq:queues").Result()
		}
		if err == nil && len(queues) == 0 {
			err = r.nothing(ctx, "queues of asynq")
		}
		if err != nil {
			yield(Job{}, r.explained(err))
			return
		}
		slices.Sort(queues)
		for _, queue := range queues {
			for _, set := range asynqSets {
				if !slices.Contains(chosen, set) {
					if !r.asynqLeft(ctx, queue, set, yield) {
						return
					}
					continue
				}
				if !r.asynqSet(ctx, queue, set, yield) {
					return
				}
			}
		}
	}
}

func (r *reader) asynqChosen() ([]string, error) {
	chosen := strings.Split(r.Set["sets"], ",")
	for _, set := range chosen {
		if !slices.Contains(asynqSets, set) {
			return nil, failf(ErrUsage, "--set sets=%s: use %s, separated by commas", r.Set["sets"], strings.Join(asynqSets, ", "))
		}
	}
	return chosen, nil
}

// explained leaves errors that have a sentence already.
func (r *reader) explained(err error) error {
	if errors.As(err, new(*Error)) {
		return err
	}
	return r.explain(err)
}

func asynqKey(queue, part string) string { return "asynq:{" + queue + "}:" + part }

func asynqList(set string) bool { return set == "pending" || set == "active" }

// asynqLeft notes the tasks of a set that is not read.
func (r *reader) asynqLeft(ctx context.Context, queue, set string, yield func(Job, error) bool) bool {
	size := r.redis.ZCard
	if asynqList(set) {
		size = r.redis.LLen
	}
	n, err := size(ctx, asynqKey(queue, set)).Result()
	switch {
	case err != nil:
		yield(Job{}, r.explain(err))
		return false
	case n == 0:
		return true
	}
	return yield(Job{Note: fmt.Sprintf("%s: %d %s tasks are left out; --set sets=scheduled,retry,%s includes them", queue, n, set, set)}, nil)
}

func (r *reader) asynqSet(ctx context.Context, queue, set string, yield func(Job, error) bool) bool {
	pages := r.scored(ctx, asynqKey(queue, set))
	if asynqList(set) {
		pages = r.listed(ctx, asynqKey(queue, set), false)
	}
	task := func(p redis.Pipeliner, id string) *redis.StringCmd {
		return p.HGet(ctx, asynqKey(queue, "t:"+id), "msg")
	}
	return r.found(ctx, pages, task, func(e entry, data []byte) bool {
		at := time.Unix(e.score, 0)
		if asynqList(set) || set == "archived" { // the score is the time of the last failure
			at = r.Clock.Now()
		}
		return yield(r.asynqJob(queue, e.id, at, data), nil)
	}, yield)
}

func (r *reader) asynqJob(queue, id string, at time.Time, data []byte) Job {
	t, err := asynqTaskOf(data)
	if err != nil {
		return Job{Registration: r.registration(queue, id, "", at, nil), Err: err}
	}
	j := Job{Registration: r.registration(queue, id, t.kind, at, t.payload)}
	to := &j.Registration
	to.Headers = t.headers
	to.Headers[headerAsynqType] = url.PathEscape(t.kind)
	to.Retry = &client.Retry{Limit: new(max(t.retry-t.retried, 0))}
	if t.deadline > 0 {
		left := time.Unix(t.deadline, 0).Sub(r.Clock.Now())
		if to.TTL = client.Duration(left); left <= 0 {
			j.Err = errors.New("its deadline has passed")
		}
	}
	return j
}

// asynqTask is what is needed of a TaskMessage of asynq.
type asynqTask struct {
	kind           string
	payload        []byte
	headers        map[string]string
	retry, retried int
	deadline       int64 // Unix time in seconds; 0: none
}

// asynqTaskOf decodes a TaskMessage (internal/proto/asynq.proto of asynq).
func asynqTaskOf(data []byte) (asynqTask, error) {
	t := asynqTask{headers: map[string]string{}}
	err := fieldsOf(data, func(field protowire.Number, text []byte, number uint64) error {
		switch field {
		case 1:
			t.kind = string(text)
		case 2:
			t.payload = text
		case 5:
			t.retry = int(int32(number))
		case 6:
			t.retried = int(int32(number))
		case 9:
			t.deadline = int64(number)
		case 15:
			var name, value string
			err := fieldsOf(text, func(field protowire.Number, text []byte, _ uint64) error {
				switch field {
				case 1:
					name = string(text)
				case 2:
					value = string(text)
				}
				return nil
			})
			t.headers[name] = value
			return err
		}
		return nil
	})
	return t, err
}

// fieldsOf passes the fields of a message of Protocol Buffers on: texts and numbers.
func fieldsOf(data []byte, each func(field protowire.Number, text []byte, number uint64) error) error {
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errors.New("it is no message of asynq")
		}
		data = data[n:]
		var text []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			text, n = protowire.ConsumeBytes(data)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(data)
		default:
			n = protowire.ConsumeFieldValue(field, kind, data)
		}
		if n < 0 {
			return errors.New("it is no message of asynq")
		}
		if data = data[n:]; field > 0 {
			if err := each(field, text, number); err != nil {
				return err
			}
		}
	}
	return nil
}
