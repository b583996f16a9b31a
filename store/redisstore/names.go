package redisstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// Names in the index of a shard begin with the letter of their kind.
const (
	ofTopics    = "t" // topic
	ofEnded     = "d" // topic with ended jobs other than dead letters, perhaps
	ofLanes     = "l" // lane
	ofEndpoints = "e" // endpoint lane; a blank, so that endpoints are sorted by their names
)

// namesAtOnce is how many names are read at once: some ten KB.
const namesAtOnce = 1_000

// section is a range of names in a ZSET whose scores are all the same.
type section struct {
	key, prefix string // of the names, not given back
	begin, end  string // with their prefixes; end is behind the last
}

// allOf is the section of an index with all names of a kind.
func (k *shardKeys) allOf(kind string) section {
	return section{key: k.index, prefix: kind, begin: kind, end: next(kind)}
}

// lanesOf are the lanes of a topic, or all without one.
func (k *shardKeys) lanesOf(topic string) section {
	s := k.allOf(ofLanes)
	if topic != "" {
		s.begin, s.end = ofLanes+topic+"|", ofLanes+topic+"}"
	}
	return s
}

// lanesAt are the lanes of an endpoint, of one topic or all.
func (k *shardKeys) lanesAt(endpoint, topic string) section {
	prefix := ofEndpoints + endpoint + " "
	s := section{key: k.index, prefix: prefix, begin: prefix, end: next(prefix)}
	if topic != "" {
		s.begin, s.end = prefix+topic+"|", prefix+topic+"}"
	}
	return s
}

// deadsOf are the groups of dead letters of a topic, or all without one.
func (k *shardKeys) deadsOf(topic string) section {
	s := section{key: k.deads, begin: "", end: "\xff"}
	if topic != "" {
		s.begin, s.end = topic+"|", topic+"}"
	}
	return s
}

// next is the first text that is greater than all that begin with prefix.
func next(prefix string) string {
	last := len(prefix) - 1
	return prefix[:last] + string(rune(prefix[last]+1))
}

// from narrows a section down to names that are not less than one.
func (s section) from(name string) section {
	s.begin = max(s.begin, s.prefix+name)
	return s
}

// names returns the first n names of a section.
func (s *Store) names(ctx context.Context, of section, n int) ([]string, error) {
	names, err := s.db.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: of.key, ByLex: true, Start: "[" + of.begin, Stop: "(" + of.end, Count: int64(n),
	}).Result()
	if err != nil {
		return nil, s.wrap(err)
	}
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, of.prefix)
	}
	return names, nil
}

// allNames returns the names of a section, the first limit of them unless that is 0.
func (s *Store) allNames(ctx context.Context, of section, limit int) (all []string, err error) {
	for {
		names, err := s.names(ctx, of, namesAtOnce)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
		if limit > 0 && len(all) > limit {
			return all[:limit], nil
		}
		if len(names) < namesAtOnce {
			return all, nil
		}
		of = of.from(names[len(names)-1] + "\x00")
	}
}

// Names reads names of the indexes.
func (s *Store) Names(ctx context.Context, q store.NameQuery) ([]string, error) {
	sh := s.shards[q.Shard]
	var of section
	switch q.Kind {
	case store.BusyNames:
		return s.busy(ctx, sh, q.N)
	case store.DueNames:
		return s.lanesDue(ctx, sh, &q)
	case store.EndpointNames:
		return s.endpointNames(ctx, sh, q.From, q.N)
	case store.TopicNames:
		of = sh.allOf(ofTopics)
	case store.EndedNames:
		of = sh.allOf(ofEnded)
	case store.DeadNames:
		of = sh.deadsOf(q.Topic)
	case store.LaneNames:
		if of = sh.lanesOf(q.Topic); q.Endpoint != "" {
			of = sh.lanesAt(q.Endpoint, q.Topic)
		}
	}
	return s.names(ctx, of.from(q.From), q.N)
}

// endpointsAtOnce is how many names of lanes are read at once to find endpoints.
const endpointsAtOnce = 200

// endpointNames returns endpoints. One may have many lanes: it skips the rest of them.
func (s *Store) endpointNames(ctx context.Context, sh *shard, from string, n int) (all []string, err error) {
	if name, behind := strings.CutSuffix(from, "\x00"); behind {
		from = name + "!" // the sign behind the blank
	}
	for len(all) < n {
		names, err := s.names(ctx, sh.allOf(ofEndpoints).from(from), endpointsAtOnce)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			endpoint, _, _ := strings.Cut(name, " ")
			if len(all) == 0 || all[len(all)-1] != endpoint {
				all = append(all, endpoint)
			}
		}
		if len(names) < endpointsAtOnce {
			break
		}
		from = all[len(all)-1] + "!"
	}
	return all[:min(n, len(all))], nil
}

// manyJobs is the number of jobs waiting in one state from which busy lists a topic.
const manyJobs = 16

// busy returns the n topics with the most jobs waiting in one state.
func (s *Store) busy(ctx context.Context, sh *shard, n int) ([]string, error) {
	fields, err := s.db.ZRevRange(ctx, sh.busy, 0, int64(n)-1).Result()
	for i, field := range fields {
		fields[i], _, _ = strings.Cut(field, "|")
	}
	return fields, s.wrap(err)
}

// lanesDue returns lanes that may have due jobs: lanes due for a visit, and lanes put off
// because of an open circuit, or because of a limit or the ready jobs of their topic. Other lanes are
// put off for at most rules.LaneLook.
func (s *Store) lanesDue(ctx context.Context, sh *shard, q *store.NameQuery) ([]string, error) {
	all := map[string]struct{}{}
	add := func(names []string) {
		for _, name := range names {
			all[name] = struct{}{}
		}
	}
	due, err := s.db.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: sh.lanes, ByScore: true, Start: "-inf", Stop: int64((q.Before - 1).Add(rules.LaneLook)), Count: int64(q.N),
	}).Result()
	if err != nil {
		return nil, s.wrap(err)
	}
	add(due)
	hinted, err := s.db.ZRangeArgs(ctx, redis.ZRangeArgs{Key: sh.places, ByLex: true, Start: "[" + hint, Stop: "(,", Count: int64(q.N)}).Result()
	if err != nil {
		return nil, s.wrap(err)
	}
	for i, name := range hinted {
		hinted[i] = strings.TrimPrefix(name, hint)
	}
	add(hinted)
	sections, err := s.putOff(ctx, sh, q.Before-1)
	if err != nil {
		return nil, err
	}
	for _, of := range sections {
		if len(all) >= q.N {
			break
		}
		names, err := s.allNames(ctx, of, q.N)
		if err != nil {
			return nil, err
		}
		add(names)
	}
	lanes := slices.Sorted(maps.Keys(all))
	return lanes[:min(len(lanes), q.N)], nil
}

// putOff returns the lanes of endpoints with open circuits, and of topics with limits.
func (s *Store) putOff(ctx context.Context, sh *shard, now job.Instant) ([]section, error) {
	circuits, err := s.circuitsOf(ctx, sh, now)
	if err != nil {
		return nil, err
	}
	var all []section
	for endpoint, circuit := range circuits {
		if circuit.OpenUntil > 0 {
			all = append(all, sh.lanesAt(endpoint, ""))
		}
	}
	topics, err := s.db.HKeys(ctx, sh.topics).Result()
	for _, topic := range topics {
		all = append(all, sh.lanesOf(topic))
	}
	return all, s.wrap(err)
}
