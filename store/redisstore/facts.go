package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// facts are the input of a plan, and the counts that its run compares.
type facts struct {
	rules.Facts
	plan     string // number of the last change that makes plans old
	ready    int    // hints on the ready list
	names    []string
	lanes    []laneCounts
	endpoint map[string]int   // jobs in flight
	topic    map[string]int   // jobs in flight
	readyOf  map[string]int   // ready jobs by topic
	own      map[job.Lane]int // jobs in flight of plain lanes and their siblings
	closed   []string         // endpoints whose stored circuits have closed
	rivals   []string         // lanes that the facts lack. If there are some, the other fields are not set
}

// laneCounts counts jobs of a lane.
type laneCounts struct {
	again, waiting, inFlight int
	next                     job.Instant // when the first waiting job that is not due yet is due; of a pull queue
}

// readFacts reads the facts about lanes of the n-th shard, of which some are due. If all are,
// it looks for their rivals.
func (s *Store) readFacts(ctx context.Context, n int, names []string, due int, o store.CarryOptions) (*facts, error) {
	sh := s.shards[n]
	f := &facts{
		Facts: rules.Facts{
			Due: due, Options: o, Shard: n, Shards: len(s.shards), Lanes: make([]job.Lane, len(names)),
			Topics: map[string]rules.Topic{}, Circuits: map[string]store.Circuit{},
		},
		names: names, endpoint: map[string]int{}, topic: map[string]int{}, readyOf: map[string]int{}, own: map[job.Lane]int{},
	}
	for i, name := range names {
		var err error
		if f.Lanes[i], err = job.ParseLane(name); err != nil {
			return nil, fmt.Errorf("redisstore: lane %q: %w", name, err)
		}
	}
	reply, err := s.askFacts(ctx, sh, names, o.EndpointLimit > 0, o.Pull == nil && due == len(names))
	if err != nil {
		return nil, err
	}
	f.Now = sh.clock.observe(reply[0])
	f.plan, _ = reply[1].(string)
	f.ready, f.rivals = intOf(reply[2]), textsOf(reply[6])
	if len(f.rivals) > 0 {
		return f, nil
	}
	f.Ready = intOf(reply[3])
	if n := len(listOf(reply[7])); n != len(names) {
		return nil, fmt.Errorf("redisstore: facts answered %d lanes for %d", n, len(names))
	}
	f.addTopics(listOf(reply[4]))
	f.addEndpoints(listOf(reply[5]))
	for i, answer := range listOf(reply[7]) {
		of := listOf(answer)
		if len(of) < 3 {
			return nil, fmt.Errorf("redisstore: facts answered %d values for a lane", len(of))
		}
		c := laneCounts{again: intOf(of[0]), waiting: intOf(of[1]), inFlight: intOf(of[2])}
		switch {
		case o.Pull != nil: // carriers see to leases that have ended
			c.again = 0
			if len(of) > 3 {
				c.next = job.Instant(intOf(of[3]))
			}
		case f.Lanes[i].Pulled():
			c.waiting = 0
		}
		f.lanes = append(f.lanes, c)
		f.own[f.Lanes[i].Plain()] += c.inFlight
	}
	return f, nil
}

// askFacts runs lua/facts.lua.
func (s *Store) askFacts(ctx context.Context, sh *shard, names []string, endpoints, rivals bool) ([]any, error) {
	keys, args := sh.own[factsScript], append(make([]any, 0, 2+len(names)), endpoints, rivals)
	for _, name := range names {
		keys, args = append(keys, sh.bucket(name)), append(args, name)
	}
	reply, err := s.eval(ctx, factsScript, keys, args)
	if err == nil && len(reply) != 8 {
		err = fmt.Errorf("redisstore: facts answered %d values", len(reply))
	}
	return reply, err
}

func (f *facts) addTopics(answers []any) {
	for _, answer := range answers {
		of := textsOf(answer)
		if len(of) != 5 {
			continue
		}
		if of[1] != "" {
			limits, _ := parseLimits(of[1])          // unreadable: none, as in Limits
			next, _ := strconv.ParseFloat(of[2], 64) // empty: none was taken
			f.Topics[of[0]] = rules.Topic{Limits: limits, Next: next}
		}
		f.topic[of[0]], f.readyOf[of[0]] = intOf(listOf(answer)[3]), intOf(listOf(answer)[4])
	}
}

func (f *facts) addEndpoints(answers []any) {
	for _, answer := range answers {
		of := textsOf(answer)
		if len(of) != 3 {
			continue
		}
		f.endpoint[of[0]] = intOf(listOf(answer)[2])
		if of[1] == "" {
			continue
		}
		c := circuitAt(of[1], f.Now)
		if c == (store.Circuit{}) {
			f.closed = append(f.closed, of[0])
			continue
		}
		f.Circuits[of[0]] = c
	}
}

// onlyDue leaves out lanes without due jobs, so that they have no share, and returns when the first
// waiting job that is not due yet is due; 0: never.
func (f *facts) onlyDue() (next job.Instant) {
	due := 0
	f.names = slices.Clone(f.names) // another plan needs them all
	for i, has := range f.lanes {
		if has.next != 0 && (next == 0 || has.next < next) {
			next = has.next
		}
		if has.waiting > 0 {
			f.Lanes[due], f.names[due], f.lanes[due] = f.Lanes[i], f.names[i], has
			due++
		}
	}
	f.Lanes, f.names, f.lanes, f.Due = f.Lanes[:due], f.names[:due], f.lanes[:due], due
	return next
}

// inFlight counts the jobs in flight that may limit a lane.
func (f *facts) inFlight(l job.Lane) rules.InFlight {
	return rules.InFlight{Endpoint: f.endpoint[l.Endpoint], Own: f.own[l.Plain()], Topic: f.topic[l.Topic], Ready: f.readyOf[l.Topic]}
}

// add counts jobs that become in flight.
func (f *facts) add(l job.Lane, n int) {
	f.endpoint[l.Endpoint] += n
	f.own[l.Plain()] += n
	f.topic[l.Topic] += n
	f.readyOf[l.Topic] += n
	f.Ready += n
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

func intOf(v any) int {
	n, _ := v.(int64)
	return int(n)
}

func textsOf(v any) []string {
	list := listOf(v)
	all := make([]string, len(list))
	for i := range list {
		all[i], _ = list[i].(string)
	}
	return all
}
