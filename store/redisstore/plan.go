package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/rules"
)

// maxPlans bounds how many plans one call makes. Most calls make one.
const maxPlans = 8

// lacked is the third value of an answer of lua/carry.lua to a plan from other facts.
const lacked = 2

// carryFrom carries from lanes that are due at now. It makes another plan when the script
// reports other facts, or rivals of the lanes.
func (s *Store) carryFrom(ctx context.Context, shard int, now job.Instant, names []string, o store.CarryOptions) (store.CarryResult, error) {
	p := planning{sh: s.shards[shard], names: names}
	p.facts = rules.Facts{Now: now, Due: len(names), Options: o, Shard: shard, Shards: len(s.shards)}
	for range maxPlans {
		keys, args, err := p.call()
		if err != nil {
			return store.CarryResult{}, err
		}
		reply, err := s.eval(ctx, carryScript, keys, args)
		if err != nil {
			return store.CarryResult{}, err
		}
		if len(reply) < 3 || reply[2] != int64(lacked) {
			return p.result(reply)
		}
		if err := p.learn(reply); err != nil {
			return store.CarryResult{}, err
		}
	}
	return store.CarryResult{}, nil // the facts change all the time: the next round plans anew
}

// planning is one call of carryFrom.
type planning struct {
	sh     *shard
	names  []string // of the lanes
	facts  rules.Facts
	rivals bool     // the rivals of the lanes are among them
	closed []string // endpoints whose stored circuit has closed by now
}

// learn takes the facts that a plan lacked.
func (p *planning) learn(reply []any) error {
	if len(reply) != 9 {
		return fmt.Errorf("redisstore: carry answered %d values", len(reply))
	}
	p.facts.Now = p.sh.clock.observe(reply[0])
	p.sh.facts.replace(p.facts.Lanes, pairs(reply[3], reply[4]), pairs(reply[3], reply[5]), pairs(reply[6], reply[7]))
	p.names, p.rivals = append(p.names, texts(reply[8])...), true
	return nil
}

// pairs are the texts of one list by those of another. Empty ones are left out.
func pairs(names, values any) map[string]string {
	all, of := map[string]string{}, texts(values)
	for i, name := range texts(names) {
		if i < len(of) && of[i] != "" {
			all[name] = of[i]
		}
	}
	return all
}

func texts(list any) []string {
	values, _ := list.([]any)
	all := make([]string, len(values))
	for i, v := range values {
		all[i], _ = v.(string)
	}
	return all
}

// call makes a plan, and returns the keys and arguments of the script that executes it.
func (p *planning) call() (keys []string, args []any, err error) {
	for _, name := range p.names[len(p.facts.Lanes):] {
		l, err := job.ParseLane(name)
		if err != nil {
			return nil, nil, fmt.Errorf("redisstore: lane %q: %w", name, err)
		}
		p.facts.Lanes = append(p.facts.Lanes, l)
	}
	topics, circuits := p.sh.facts.of(p.facts.Lanes)
	p.facts.Topics, p.facts.Circuits, p.closed = nil, nil, nil
	if len(topics)+len(circuits) > 0 {
		p.facts.Topics, p.facts.Circuits = map[string]rules.Topic{}, map[string]store.Circuit{}
	}
	for name, t := range topics {
		next, _ := strconv.ParseFloat(t.token, 64) // empty: none was taken
		p.facts.Topics[name] = rules.Topic{Limits: t.parsed, Next: next}
	}
	for endpoint, text := range circuits {
		c := circuitAt(text, p.facts.Now)
		p.facts.Circuits[endpoint] = c
		if c == (store.Circuit{}) {
			p.closed = append(p.closed, endpoint)
		}
	}
	plan := rules.MakePlan(&p.facts)

	encoded, err := p.encode(plan, topics, circuits)
	if err != nil {
		return nil, nil, err
	}
	keys = p.sh.own[carryScript]
	args = []any{p.facts.Options.Cap, maxBatch, millis(p.facts.Options.Visibility), encoded}
	visited := make([]bool, len(p.names))
	for i := range plan.Visits {
		lane := plan.Visits[i].Lane
		visited[lane] = true
		keys, args = append(keys, p.sh.bucket(p.names[lane])), append(args, p.names[lane])
	}
	for i, name := range p.names { // these only count as in flight
		if !visited[i] {
			keys, args = append(keys, p.sh.bucket(name)), append(args, name)
		}
	}
	return keys, args, nil
}

// result reads the answer to a plan that was executed.
func (p *planning) result(reply []any) (store.CarryResult, error) {
	if len(reply) < 4 || len(reply)%2 != 0 {
		return store.CarryResult{}, fmt.Errorf("redisstore: carry answered %d values", len(reply))
	}
	now := p.sh.clock.observe(reply[0])
	head, _ := reply[1].(int64)
	full, _ := reply[2].(int64)
	p.sh.facts.follow(texts(reply[3]), p.closed)
	r := store.CarryResult{Wait: -1, Full: full == 1, Carried: make([]store.Carried, 0, len(reply)/2-2)}
	if head >= 0 {
		r.Wait = max(0, job.Instant(head).Sub(now))
	}
	for i := 4; i < len(reply); i += 2 {
		raw, _ := reply[i].(string)
		state, _ := reply[i+1].(int64)
		hint, err := parseHint(raw)
		if err != nil {
			return r, fmt.Errorf("redisstore: carry answered %q: %w", raw, err)
		}
		r.Carried = append(r.Carried, store.Carried{Hint: hint, From: job.State(state)})
	}
	return r, nil
}
