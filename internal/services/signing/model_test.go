package signing_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/duehook/duehook/internal/services/signing"
)

// modelRing is what should sign, newest first.
type modelRing []modelSecret

type modelSecret struct {
	text string
	ends time.Time // zero: never
}

func (r modelRing) at(now time.Time) modelRing {
	return slices.DeleteFunc(slices.Clone(r), func(s modelSecret) bool {
		return !s.ends.IsZero() && !s.ends.After(now)
	})
}

func (r modelRing) replaced(text string, now time.Time, overlap time.Duration) modelRing {
	next := modelRing{{text: text}}
	for _, s := range r {
		if s.text == text {
			continue
		}
		if end := now.Add(overlap); s.ends.IsZero() || s.ends.After(end) {
			s.ends = end
		}
		next = append(next, s)
	}
	return next.at(now)
}

// Whatever is done to secrets on any node, in the end all nodes sign with just
// those that the rules name.
func TestNodesAgainstModel(t *testing.T) {
	topics := []string{"", "a", "b"}
	rapid.Check(t, func(rt *rapid.T) {
		nodes, _, c := cluster(t, 2)
		model := map[string]modelRing{"": {{text: nodes[0].made}}}
		effective := func(topic string) modelRing {
			if own, ok := model[topic]; ok {
				return own.at(c.Now())
			}
			return model[""].at(c.Now())
		}
		used := []string{nodes[0].made}
		overlaps := rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour, signing.MaxOverlap})
		node := func() node { return rapid.SampledFrom(nodes).Draw(rt, "node") }
		// change applies what a node did to the model, unless it was one too many.
		change := func(topic, text string, overlap time.Duration, err error) {
			next := effective(topic).replaced(text, c.Now(), overlap)
			if tooMany := len(next) > signing.MaxSecrets; tooMany != errors.Is(err, signing.ErrTooManySecrets) || (err != nil && !tooMany) {
				rt.Fatalf("with %d secrets: %v", len(next), err)
			}
			if err == nil {
				model[topic] = next
				used = append(used, text)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"rotate": func(rt *rapid.T) {
				topic, overlap := rapid.SampledFrom(topics).Draw(rt, "topic"), overlaps.Draw(rt, "overlap")
				made, err := node().Replace(t.Context(), topic, "", overlap)
				change(topic, made.Secret, overlap, err)
			},
			"set": func(rt *rapid.T) {
				topic, overlap := rapid.SampledFrom(topics).Draw(rt, "topic"), overlaps.Draw(rt, "overlap")
				text := rapid.SampledFrom(used).Draw(rt, "secret")
				_, err := node().Replace(t.Context(), topic, text, overlap)
				change(topic, text, overlap, err)
			},
			"delete": func(rt *rapid.T) {
				topic := rapid.SampledFrom(topics[1:]).Draw(rt, "topic")
				_, own := model[topic]
				if err := node().Delete(t.Context(), topic); own != (err == nil) || (!own && !errors.Is(err, signing.ErrNoSecret)) {
					rt.Fatal(err)
				}
				delete(model, topic)
			},
			"sign": func(rt *rapid.T) { node().header(rapid.SampledFrom(topics).Draw(rt, "topic"), c.Now()) },
			"wait": func(rt *rapid.T) {
				c.Advance(time.Duration(rapid.IntRange(0, 2*3600_000).Draw(rt, "ms")) * time.Millisecond)
			},
			"": func(*rapid.T) {
				look(nodes...)
				for _, n := range nodes {
					for _, topic := range topics {
						var want []string
						for _, s := range effective(topic) {
							want = append(want, s.text)
						}
						n.wantSigned(topic, c.Now(), want...)
						if t.Failed() {
							rt.FailNow()
						}
					}
				}
			},
		})
	})
}
