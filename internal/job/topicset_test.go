package job

import (
	"strings"
	"testing"
)

func TestTopicSet(t *testing.T) {
	for _, c := range []struct {
		set  TopicSet
		has  string
		want bool
	}{
		{nil, "any", true},
		{TopicSet{"orders"}, "orders", true},
		{TopicSet{"orders"}, "orders-eu", false},
		{TopicSet{"orders"}, "order", false},
		{TopicSet{"orders-*"}, "orders-eu", true},
		{TopicSet{"orders-*"}, "orders-", true},
		{TopicSet{"orders-*"}, "orders", false},
		{TopicSet{"orders-*"}, "Orders-eu", false},
		{TopicSet{"a", "b*"}, "bc", true},
		{TopicSet{"a", "b*"}, "ab", false},
	} {
		if got := c.set.Has(c.has); got != c.want {
			t.Errorf("%q has %q: %t", c.set, c.has, got)
		}
		if got := c.set.Allow(c.has) == nil; got != c.want {
			t.Errorf("%q allows %q: %t", c.set, c.has, got)
		}
	}
	if (TopicSet{"a"}).Allow("") == nil || TopicSet(nil).Allow("") != nil {
		t.Error("only those without a restriction may do what concerns all topics")
	}
}

func TestTopicSetCovers(t *testing.T) {
	for _, c := range []struct {
		set, other TopicSet
		want       bool
	}{
		{nil, nil, true},
		{nil, TopicSet{"a"}, true},
		{TopicSet{"a"}, nil, false},
		{TopicSet{"a*"}, TopicSet{"ab", "ac*"}, true},
		{TopicSet{"ab*"}, TopicSet{"a*"}, false},
		{TopicSet{"a"}, TopicSet{"a*"}, false},
		{TopicSet{"a*"}, TopicSet{"a", "b"}, false},
	} {
		if got := c.set.Covers(c.other); got != c.want {
			t.Errorf("%q covers %q: %t", c.set, c.other, got)
		}
	}
}

func TestCheckTopicPattern(t *testing.T) {
	for _, good := range []string{"orders", "orders-*", "o*", "zahlung-ä*", ".*", strings.Repeat("a", MaxName)} {
		if err := CheckTopicPattern(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "*", "**", "a*b", "*a", "a b", "a/*", ".", strings.Repeat("a", MaxName+1)} {
		if CheckTopicPattern(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
