package redisstore

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/store/listing"
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

// allNames returns the names of a section, the first limit of them unless that is 0,
// and whether there are more.
func (s *Store) allNames(ctx context.Context, of section, limit int) (all []string, more bool, err error) {
	for {
		names, err := s.names(ctx, of, namesAtOnce)
		if err != nil {
			return nil, false, err
		}
		all = append(all, names...)
		if limit > 0 && len(all) > limit {
			return all[:limit], true, nil
		}
		if len(names) < namesAtOnce {
			return all, false, nil
		}
		of = of.from(names[len(names)-1] + "\x00")
	}
}

// merged returns the first n names of all shards; of returns those of one shard.
func (s *Store) merged(ctx context.Context, n int, of func(ctx context.Context, sh *shard) ([]string, error)) ([]string, error) {
	perShard, err := gather(ctx, s, of)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(perShard...)
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(n, len(all))], nil
}

// nextTopics is a listing.NextNames.
func (s *Store) nextTopics(ctx context.Context, from string, n int) ([]string, error) {
	return s.merged(ctx, n, func(ctx context.Context, sh *shard) ([]string, error) {
		return s.names(ctx, sh.allOf(ofTopics).from(from), n)
	})
}

var _ listing.NextNames = (*Store)(nil).nextTopics

// endpointNames is how many names of lanes are read at once to find endpoints.
const endpointNames = 200

// nextEndpoints is a store.NextNames. An endpoint may have many lanes: it skips the rest of
// them.
func (s *Store) nextEndpoints(ctx context.Context, from string, n int) ([]string, error) {
	if name, behind := strings.CutSuffix(from, "\x00"); behind {
		from = name + "!" // the sign behind the blank
	}
	return s.merged(ctx, n, func(ctx context.Context, sh *shard) (all []string, err error) {
		for from := from; len(all) < n; {
			names, err := s.names(ctx, sh.allOf(ofEndpoints).from(from), endpointNames)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				endpoint, _, _ := strings.Cut(name, " ")
				if len(all) == 0 || all[len(all)-1] != endpoint {
					all = append(all, endpoint)
				}
			}
			if len(names) < endpointNames {
				break
			}
			from = all[len(all)-1] + "!"
		}
		return all[:min(n, len(all))], nil
	})
}
