package redisstore

import "strconv"

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// shardTag is the hash tag of one of a number of shards: ns:0 of a single one. The tag of others is
// the first of ns:shards:shard, ns:shards:shard:1, ns:shards:shard:2, … in the shard's own part
// of the slots, so that masters with equal shares of the slots have equal numbers of
// shards. Different numbers of shards have no tag in common.
func shardTag(namespace string, shard, shards int) string {
	if shards == 1 {
		return namespace + ":0"
	}
	from, to := shard*slots/shards, (shard+1)*slots/shards
	base := namespace + ":" + strconv.Itoa(shards) + ":" + strconv.Itoa(shard)
	state, suffix := crc16(0, base), ""
	for n := 1; ; n++ {
		if slot := int(crc16(state, suffix)) % slots; from <= slot && slot < to {
			return base + suffix
		}
		suffix = ":" + strconv.Itoa(n)
	}
}

// crc16 continues from state with s, with the checksum of Redis Cluster (CRC-16/XMODEM).
func crc16(state uint16, s string) uint16 {
	for i := range len(s) {
		state = state<<8 ^ crcTable[byte(state>>8)^s[i]]
	}
	return state
}

// crcTable has the checksum of each byte.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		state := uint16(i) << 8
		for range 8 {
			carry := state & 0x8000
			state <<= 1
			if carry != 0 {
				state ^= 0x1021
			}
		}
		table[i] = state
	}
	return table
}()
