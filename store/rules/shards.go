package rules

import "github.com/duehook/duehook/store"

// Share is the n-th shard's share of a limit on the whole store; 0 is no limit. The
// shares add up to the limit, except that each is at least 1.
func Share(limit, n, shards int) int {
	if limit == 0 {
		return 0
	}
	share := limit / shards
	if n < limit%shards {
		share++
	}
	return max(1, share)
}

// equalShare is a shard's share of a limit on the whole store, rounded up; 0 is no limit.
func equalShare(limit, shards int) int { return (limit + shards - 1) / shards }

// EndpointLimit is the most jobs in flight of an endpoint in one of a number of equal
// shards, for a job of the topic; 0: any number.
func EndpointLimit(o *store.FlightLimits, topic string, shards int) int {
	limit := equalShare(o.EndpointLimit, shards)
	if limit > 0 {
		limit = max(limit, TopicLimit(o, topic, shards))
	}
	return limit
}

// TopicLimit is the most jobs in flight of a topic at one endpoint in one of a number of
// equal shards; 0: any number.
func TopicLimit(o *store.FlightLimits, topic string, shards int) int {
	return equalShare(o.TopicLimits[topic], shards)
}
