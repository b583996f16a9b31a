package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/internal/testing/testenv"
	"github.com/duehook/duehook/job"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/ledger"
	"github.com/duehook/duehook/store/listing"
)

func redisClient(t testing.TB, redis *testenv.Redis) *goredis.Client {
	t.Helper()
	o, err := goredis.ParseURL(redis.URL())
	noError(t, "ParseURL", err)
	client := goredis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func flushAll(t testing.TB, redis *testenv.Redis) {
	t.Helper()
	noError(t, "FLUSHALL", redisClient(t, redis).FlushAll(t.Context()).Err())
}

// dumped is everything that a Redis holds at one moment, as an operator may put
// it back.
func dumped(t testing.TB, client *goredis.Client) map[string]string {
	t.Helper()
	const script = `local all = {}
		for _, key in ipairs(redis.call('KEYS', '*')) do
			table.insert(all, key)
			table.insert(all, redis.call('DUMP', key))
		end
		return all`
	all, err := client.Eval(t.Context(), script, nil).StringSlice()
	noError(t, "dump", err)
	dump := map[string]string{}
	for i := 0; i < len(all); i += 2 {
		dump[all[i]] = all[i+1]
	}
	return dump
}

func putBackDump(t testing.TB, client *goredis.Client, dump map[string]string) {
	t.Helper()
	_, err := client.TxPipelined(t.Context(), func(p goredis.Pipeliner) error {
		p.FlushAll(t.Context())
		for k, v := range dump {
			p.Restore(t.Context(), k, 0, v)
		}
		return nil
	})
	noError(t, "put the dump back", err)
}

// reconcilers are two nodes on a Redis, at a pace at which a test need not wait.
func reconcilers(t *testing.T, b *backend, redis *testenv.Redis, url string) []*rig {
	t.Helper()
	namespace := newName()
	var nodes []*rig
	for range 2 {
		r := node(t, b, redis.URL(), namespace, url, quick)
		r.lease = 500 * time.Millisecond
		r.reconciling()
		nodes = append(nodes, r)
	}
	return nodes
}

// quick is a pace at which a test in real time need not wait.
func quick(o *options) {
	o.Pace = ledger.Pace{Look: 20 * time.Millisecond, SecondLook: 100 * time.Millisecond, Every: 300 * time.Millisecond}
}

// Two nodes work and reconcile while their Redis loses everything, and goes back to
// what it was. Each job is delivered; what was known as delivered before a loss
// is not delivered again.
func TestRaceRedisLosesJobs(t *testing.T) {
	onRealServers(t, func(t *testing.T, b *backend) {
		redis := testenv.StartRedis(t)
		client := redisClient(t, redis)
		nodes := reconcilers(t, b, redis, b.Fresh(t))
		delivered := map[job.Key]int{}
		added := 0
		addSome := func() {
			t.Helper()
			for range 20 {
				g := reg(fmt.Sprint("j", added), 0)
				g.UID = fmt.Sprintf("01%024d", rand.Uint64())
				nodes[added%2].Add(g)
				added++
			}
		}
		deliver := func(settled func(c store.Claimed) bool) {
			t.Helper()
			for n, r := range nodes {
				for _, c := range r.takeAny(t.Context()) {
					if !settled(c) {
						continue
					}
					done, err := nodes[1-n].Settle(t.Context(), []job.Settlement{settlement(c, job.OutcomeDelivered, 0)})
					noError(t, "Settle", err)
					delivered[c.Job.Key]++
					equal(t, "status", done[0].Status, store.Applied)
				}
			}
		}
		half := func(store.Claimed) bool { return len(delivered)*2 < added }
		all := func(store.Claimed) bool { return true }
		addSome()
		deliver(half)
		old := dumped(t, client)
		addSome()
		deliver(half)
		flushAll(t, redis)
		testenv.Eventually(t, outageLimit, func() bool { return nodes[0].unfinished() == added-len(delivered) }, "the jobs are back")
		deliver(half)
		putBackDump(t, client, old)
		testenv.Eventually(t, outageLimit, func() bool {
			deliver(all)
			return len(delivered) == added
		}, "everything is delivered")
		testenv.Eventually(t, outageLimit, func() bool {
			deliver(all)
			return nodes[0].unfinished() == 0
		}, "nothing is left")
		for k, n := range delivered {
			if n != 1 {
				t.Errorf("%s was delivered %d times", k, n)
			}
		}
		for _, r := range nodes {
			noError(t, "Flush", r.Flush())
		}
		equal(t, "what may be restored", nodes[0].Query("SELECT count(*) FROM message WHERE done_at IS NULL"), []string{"0"})
	})
}

// unfinished is how many jobs the store has that have not ended.
func (r *rig) unfinished() int {
	r.T.Helper()
	d, err := listing.Depth(r.T.Context(), r)
	noError(r.T, "Depth", err)
	n := int64(0)
	for state, count := range d.States {
		if !state.Final() {
			n += count
		}
	}
	return int(n)
}

// A random workload, during which Redis loses everything now and then, loses no
// job: what has not ended in the ledger is in the store when all is quiet.
func TestRaceRedisLosesJobsAtRandom(t *testing.T) {
	t.Parallel()
	for _, b := range servers {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("%s,seed=%d", b.Name, seed), func(t *testing.T) {
			t.Parallel()
			redis := testenv.StartRedis(t)
			client := redisClient(t, redis)
			url := b.Fresh(t)
			nodes := reconcilers(t, b, redis, url)
			const callers, steps = 4, 40
			var wg sync.WaitGroup
			for n := range callers {
				random := rand.New(rand.NewPCG(seed, uint64(n)))
				wg.Go(func() {
					for range steps {
						nodes[n%len(nodes)].nodeStep(random)
					}
				})
			}
			random := rand.New(rand.NewPCG(seed, callers))
			dumps := []map[string]string{{}}
			for range 4 {
				noError(t, "Sleep", job.Sleep(t.Context(), job.SystemClock(), time.Duration(random.IntN(300))*time.Millisecond))
				dumps = append(dumps, dumped(t, client))
				putBackDump(t, client, dumps[random.IntN(len(dumps))])
			}
			wg.Wait()
			testenv.Eventually(t, outageLimit, func() bool {
				nodes[0].takeAny(t.Context()) // what a copy had as running is found when its lease has expired
				v, err := nodes[0].differences(url)
				return err == nil && v.Differences == 0
			}, "the ledger and the store agree")
		})
	}
}

// differences holds the ledger against the store as the command does.
func (r *rig) differences(url string) (ledger.Verified, error) {
	r.T.Helper()
	return ledger.Verify(r.T.Context(), ledger.VerifyOptions{URL: url, Store: r.o.Store, SecondLook: time.Millisecond})
}
