package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/store"
)

// turnsModel makes random calls on jobs of few order keys, and checks what is claimed.
type turnsModel struct {
	*fixture
	*rand.Rand
	topic  string
	jobs   map[job.Key]struct{}
	sent   map[job.Key]bool // claimed before the drain
	claims []store.Claimed
}

func newTurnsModel(f *fixture, seed uint64) *turnsModel {
	return &turnsModel{fixture: f, Rand: rand.New(rand.NewPCG(seed, 1)), topic: fmt.Sprint("t", seed), jobs: map[job.Key]struct{}{}, sent: map[job.Key]bool{}}
}

func (m *turnsModel) run() {
	if m.IntN(2) == 0 {
		m.limit(m.topic, stopOnDead)
	}
	steps := []func(){m.add, m.add, m.add, m.ready, m.take, m.take, m.take, m.settle, m.settle, m.change, m.change}
	for range 120 {
		steps[m.IntN(len(steps))]()
	}
	m.drain()
}

func (m *turnsModel) add() {
	r := reg(m.topic, fmt.Sprint(m.IntN(30)), ordered(fmt.Sprint("k", m.IntN(3))), onConflict(job.ConflictIgnore))
	if m.IntN(8) == 0 {
		r = reg(m.topic, r.Key.ID, onConflict(job.ConflictIgnore))
	}
	if m.IntN(3) == 0 {
		r.OnConflict = job.ConflictReplace
	}
	r.Spec.Destination = job.Destination([]string{urlA, urlA, urlB}[m.IntN(3)])
	r.Spec.Priority = []job.Priority{0, 0, 9}[m.IntN(3)]
	if m.IntN(3) == 0 {
		reporting(&r) // its settlements take another way
	}
	r.Spec.When.Delay = []time.Duration{0, 0, 0, time.Millisecond, long}[m.IntN(5)]
	_, err := m.Register(m.ctx, []store.Registration{r})
	m.noError("Register", err)
	m.jobs[r.Key] = struct{}{}
}

// ready has due jobs on the ready list of a store that has one.
func (m *turnsModel) ready() { m.fixture.ready(job.Waiting) }

// take claims some jobs. No job is claimed while another one of its key is in flight.
func (m *turnsModel) take() {
	before := m.byKey()
	o := generous
	o.Max = 1 + m.IntN(5)
	short := m.IntN(4) == 0
	if short {
		o.Lease = time.Millisecond
	}
	claims := m.takeOnce(o).Claims
	for _, c := range claims {
		m.claims = slices.DeleteFunc(m.claims, func(old store.Claimed) bool { return old.Job.Key == c.Job.Key })
		m.claims, m.sent[c.Job.Key] = append(m.claims, c), true
		if short {
			m.waitPast(c.Now.Add(o.Lease))
		}
		for _, other := range before[c.Job.Spec.OrderKey] {
			if other.Key != c.Job.Key && other.State == job.Running {
				m.Fatalf("%s was claimed while %s was in flight", c.Job.Key, other.Key)
			}
		}
	}
	m.apart(m.inFlight())
}

// inFlight are the claims that their jobs still have. A lease may have expired: then the job was carried
// again and perhaps ended by a change.
func (m *turnsModel) inFlight() []store.Claimed {
	return slices.DeleteFunc(slices.Clone(m.claims), func(c store.Claimed) bool {
		j := m.get(c.Job.Key)
		return j.State != job.Running || j.Token != c.Job.Token
	})
}

// byKey are the unfinished jobs of each order key, and dead letters.
func (m *turnsModel) byKey() map[string][]job.Job {
	all := map[string][]job.Job{}
	for key := range m.jobs {
		if j := m.get(key); (!j.State.Final() || j.State == job.Dead) && j.Spec.OrderKey != "" {
			all[j.Spec.OrderKey] = append(all[j.Spec.OrderKey], j)
		}
	}
	return all
}

func (m *turnsModel) settle() {
	if len(m.claims) == 0 {
		return
	}
	n := m.IntN(len(m.claims))
	c := m.claims[n]
	m.claims = slices.Delete(m.claims, n, n+1)
	all := []job.Settlement{delivered(c), delivered(c), failed(c, always), failed(c, never), released(c, 0)}
	s := all[m.IntN(len(all))]
	_, err := m.Settle(m.ctx, []job.Settlement{s, s}) // also twice
	m.noError("Settle", err)
}

func (m *turnsModel) change() {
	all := []func(*job.Job, job.Instant) error{
		cancel, runNow, later, replay, discard,
		respecify(func(s *job.Spec) { s.Destination = job.Destination(otherURL(string(s.Destination))) }),
		respecify(func(s *job.Spec) { s.Priority = 9 - s.Priority }),
	}
	key := job.Key{Topic: m.topic, ID: fmt.Sprint(m.IntN(30))}
	_, _ = m.Update(m.ctx, key, all[m.IntN(len(all))])
}

// drain delivers all. What is left in the end waits for a dead letter.
func (m *turnsModel) drain() {
	for _, c := range m.claims {
		_, err := m.Settle(m.ctx, []job.Settlement{delivered(c)})
		m.noError("Settle", err)
	}
	for key := range m.jobs {
		if j := m.get(key); j.State == job.Dead {
			m.update(key, discard)
		} else if !j.State.Final() {
			// The due time of a job that may be changed: it was far ahead.
			_, _ = m.Update(m.ctx, key, func(j *job.Job, now job.Instant) error {
				if j.NextAt <= now {
					return job.ErrKeepsSchedule
				}
				return j.Reschedule(job.When{}, now)
			})
		}
	}
	m.waitPast(m.now())
	last := map[string]job.Turn{}
	m.eventually("all jobs are delivered", func() bool {
		claims := m.fixture.take()
		m.apart(claims)
		for _, c := range claims {
			if key := c.Job.Spec.OrderKey; key != "" && !m.sent[c.Job.Key] {
				turn := c.Job.Turn()
				turn.Stage = job.Fresh
				if before, ok := last[key]; ok && turn.Compare(before) < 0 {
					m.Fatalf("%s was delivered out of order", c.Job.Key)
				}
				last[key] = turn
			}
			m.fixture.settle(store.Applied, delivered(c))
		}
		for _, j := range m.list(store.Query{Topic: m.topic, Limit: 1_000}) {
			if !j.State.Final() {
				return false
			}
		}
		return true
	})
	var left []string
	for _, j := range m.list(store.Query{Topic: m.topic, Limit: 1_000}) {
		if _, callback := job.CallbackOf(j.ID); !callback && j.State != job.Delivered && j.State != job.Cancelled {
			left = append(left, j.ID)
		}
	}
	equal(m.fixture, "left", strings.Join(left, " "), "")
	m.keys(0, 0)
}
