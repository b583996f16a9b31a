package cli

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/kit/nearest"
)

// searchHelp lists the words of a search. They are the filters of the API and of the dashboard.
const searchHelp = `Words narrow the search; a job must match all of them:

  topic:NAME  state:dead  id:PREFIX  uid:01JH…  biz_key:KEY or KEY alone  order_key:KEY
  endpoint:URL or URL alone  labels:key:value  priority:7  reason:retry_limit
  schedule:NAME  group_id:ID  dialect:NAME  due_from:30m due_to:2h  created_from:-1d created_to:now
  (times are durations from now by the server's clock, or RFC 3339)`

// searchNames are the names of the words, for suggestions.
var searchNames = []string{
	"topic", "state", "id", "uid", "biz_key", "order_key", "endpoint", "labels", "priority", "reason", "schedule", "group_id", "dialect",
	"due_from", "due_to", "created_from", "created_to",
}

// webhookID is a uid, and in callbacks also the event.
var webhookID = regexp.MustCompile(`(?i)^([0-7][0-9A-HJKMNP-TV-Z]{25})(\.[a-z_]+[.\d]*)?$`)

// filterOf reads the words of a search.
func (a *app) filterOf(ctx context.Context, words []string) (client.JobFilter, error) {
	var f client.JobFilter
	given := map[string]bool{}
	for _, word := range words {
		field, err := a.addWord(ctx, &f, word)
		if err != nil {
			return f, err
		}
		if given[field] {
			return f, usagef("%q: another word names %s, too. A job has to match all words", word, field)
		}
		given[field] = true
	}
	return f, nil
}

// addWord adds a word to a filter, and returns which field it sets.
func (a *app) addWord(ctx context.Context, f *client.JobFilter, word string) (field string, err error) {
	name, value, named := strings.Cut(word, ":")
	texts := map[string]*string{
		"topic": &f.Topic, "id": &f.ID, "uid": &f.UID, "biz_key": &f.BizKey, "order_key": &f.OrderKey, "endpoint": &f.Endpoint,
		"reason": &f.Reason, "schedule": &f.Schedule, "group_id": &f.GroupID, "dialect": &f.Dialect,
	}
	times := map[string]*time.Time{"due_from": &f.DueFrom, "due_to": &f.DueTo, "created_from": &f.CreatedFrom, "created_to": &f.CreatedTo}
	if match := webhookID.FindStringSubmatch(word); match != nil {
		f.UID = strings.ToUpper(match[1])
		return "uid", nil
	}
	if strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://") {
		f.Endpoint = word
		return "endpoint", nil
	}
	known := texts[name] != nil || times[name] != nil || name == "state"
	switch {
	case known && named && value == "":
		return "", usagef("%q: write a value after the colon", word)
	case named && texts[name] != nil:
		*texts[name] = value
	case named && times[name] != nil:
		return name, a.readTime(ctx, times[name], value)
	case named && name == "state":
		for state := range strings.SplitSeq(value, ",") {
			f.State = append(f.State, client.State(state))
		}
	case name == "labels":
		key, text, ok := strings.Cut(value, ":")
		if !ok {
			return "", usagef("%q: write labels:key:value", word)
		}
		if f.Labels == nil {
			f.Labels = map[string]string{}
		}
		f.Labels[key] = text
		return name + ":" + key, nil
	case name == "priority":
		n, err := strconv.Atoi(value)
		if err != nil {
			return "", usagef("%q: a priority is a number from 1 to 9", word)
		}
		f.Priority = n
	case strings.Contains(word, "="): // no business key has one
		name, value, _ = strings.Cut(word, "=")
		return "", usagef("%q: write %s:%s, with a colon", word, firstOf(nearest.Name(name, searchNames), name), value)
	case named:
		if near := nearest.Name(name, searchNames); near != "" {
			return "", usagef("%q is no word of a search; did you mean %s:%s?", word, near, value)
		}
		return "", usagef("%q is no word of a search; a business key with a colon is biz_key:%s\n\n%s", word, word, searchHelp)
	default:
		f.BizKey = word
		return "biz_key", nil
	}
	return name, nil
}

func (a *app) readTime(ctx context.Context, to *time.Time, value string) error {
	if value == "now" {
		value = "0s"
	}
	at, err := a.moment(ctx, strings.TrimPrefix(value, "-"))
	if err != nil {
		return err
	}
	if *to = at; value[0] == '-' { // a duration, since no time begins with it
		now := a.now()
		*to = now.Add(now.Sub(at))
	}
	return nil
}
