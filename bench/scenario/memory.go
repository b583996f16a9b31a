package scenario

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/bench/contender"
	"github.com/duehook/duehook/bench/report"
	"github.com/duehook/duehook/bench/stats"
	"github.com/duehook/duehook/bench/system"
)

// info is a number of Redis's INFO.
func info(ctx context.Context, s *system.Redis, name string) (float64, error) {
	db := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer func() { _ = db.Close() }()
	text, err := db.Info(ctx).Result()
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(`(?m)^` + name + `:(\d+)`).FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("INFO does not tell %s", name)
	}
	return strconv.ParseFloat(m[1], 64)
}

const (
	million  = 1_000_000
	megabyte = 1_000_000 // as vendors count it
)

// memory measures what a waiting job takes in Redis.
func memory(ctx context.Context, r *runner) (*result, error) {
	names := r.among(contender.Limit, contender.Duehook, contender.Asynq)
	table := report.Table{Header: []string{
		fmt.Sprintf("%s waiting jobs, body of %d bytes, id of 36", stats.Count(r.Size.Memory), contender.BodySize),
		"bytes per job in Redis",
	}}
	sizing := &report.Table{Header: []string{"waiting jobs of that size", "memory of Redis"}}
	for _, name := range names {
		bytes, err := r.bytesPerJob(ctx, name, r.Size.Memory)
		if err != nil {
			return nil, err
		}
		table.Add(contender.Title(name), stats.Number(bytes))
		if contender.Own(name) {
			sizing.Add("1,000,000", stats.Number(bytes*million/megabyte)+" MB")
		}
	}
	return &result{tables: []report.Table{table}, sizing: sizing}, nil
}

func (r *runner) bytesPerJob(ctx context.Context, name string, jobs int) (bytes float64, err error) {
	s := r.setup
	s.Persistence = "none" // its buffers would count
	c, err := r.contend(ctx, name, s)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	server, err := redisOf(c)
	if err != nil {
		return 0, err
	}
	before, err := info(ctx, server, "used_memory")
	if err != nil {
		return 0, err
	}
	if err := c.Load(ctx, r.waitingJobs(jobs)); err != nil {
		return 0, err
	}
	after, err := info(ctx, server, "used_memory")
	return (after - before) / float64(jobs), err
}

func redisOf(c contender.Contender) (*system.Redis, error) {
	if on, ok := c.(contender.OnRedis); ok {
		return on.Redis(), nil
	}
	return nil, errors.New("its jobs are not in Redis")
}
