package rules

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

// EqualShare is a shard's share of a limit on the whole store, rounded up; 0 is no limit.
func EqualShare(limit, shards int) int { return (limit + shards - 1) / shards }
