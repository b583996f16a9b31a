package importer

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/duehook/duehook/client"
)

// mykit reads the pool of mykit-delay, which has all unfinished jobs. The dialect of mykit-delay
// translates and registers them.
func (r *reader) mykit(ctx context.Context) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		if r.Set["name"] == "" {
			yield(Job{}, failf(ErrUsage, "name the queues of mykit-delay, its setting mykit.delay.rqueue.name, with --set name=NAME"))
			return
		}
		pool, read := r.Set["prefix"]+":"+r.Set["name"]+":"+r.Set["originPool"], 0
		for cursor := uint64(0); ; {
			flat, next, err := r.redis.HScan(ctx, pool, cursor, "", pageSize).Result()
			if err == nil && len(flat) == 0 && next == 0 && read == 0 {
				err = r.nothing(ctx, "jobs in "+pool)
			}
			if err != nil {
				yield(Job{}, r.explained(err))
				return
			}
			for i := 0; i+1 < len(flat); i += 2 {
				read++
				if j, waits := r.mykitJob(flat[i], []byte(flat[i+1])); waits && !yield(j, nil) {
					return
				}
			}
			if cursor = next; cursor == 0 {
				return
			}
		}
	}
}

// mykitJob has a job of the pool pushed, as its client would; false: it has ended.
func (r *reader) mykitJob(id string, data []byte) (Job, bool) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return Job{Registration: client.Registration{Topic: "default", ID: id}, Err: errors.New("it is no job of mykit-delay")}, true
	}
	const finished, deleted = "3", "4"
	if status := string(members["status"]); status == finished || status == deleted {
		return Job{}, false
	}
	var topic string
	_ = json.Unmarshal(members["topic"], &topic) // the dialect refuses others
	j := Job{Registration: client.Registration{Topic: topic, ID: id, At: time.UnixMilli(millis(members["createTime"]) + millis(members["delay"]))}}
	delete(members, "status")
	delete(members, "buckedName")
	body, err := json.Marshal(members)
	j.Call, j.Err = &Call{Dialect: "mykit", Path: "/push?on_conflict=once", Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, err
	if r.DryRun {
		j.Call.Path += "&dry_run=true"
	}
	return j, true
}

// millis is a number of milliseconds; 0 for others, which the dialect refuses.
func millis(data json.RawMessage) int64 {
	n, _ := strconv.ParseInt(string(data), 10, 64)
	return n
}
