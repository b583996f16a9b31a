package importer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/internal/job"
)

// Why an import cannot begin, or stops.
var (
	ErrUsage       = errors.New("wrong usage")
	ErrUnreachable = errors.New("cannot be reached")
	ErrNothing     = errors.New("nothing to import")
)

// Error is one of the reasons above, with a sentence for the user.
type Error struct {
	Reason  error
	Message string
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Reason }

func failf(reason error, format string, args ...any) error {
	return &Error{reason, fmt.Sprintf(format, args...)}
}

// Options say where the original is, and what becomes of its jobs.
type Options struct {
	Clock   job.Clock
	Address string
	Set     map[string]string // settings of the original
	URL     string            // for jobs without one; empty: that of the topic's settings
	Pull    bool              // consumers fetch the jobs
	Token   string            // of the original's API
	DryRun  bool              // calls register nothing
}

// Job is a job of the original.
type Job struct {
	// Registration registers the job. Topic, ID and At are always set.
	Registration client.Registration
	// Call registers the job instead, by the dialect of its original.
	Call *Call
	// Err is why the job cannot be registered.
	Err error
	// Note says what of the original is not read; such a Job has no registration.
	Note string
	// Empty: the job is only counted, like an empty line of a file.
	Empty bool
}

// Source is the waiting jobs of an original.
type Source struct {
	Jobs  iter.Seq2[Job, error]
	Close func() error
}

// original is one kind of source.
type original struct {
	// set has the settings with their defaults.
	set map[string]string
	// address is the default address.
	address string
	open    func(ctx context.Context, o Options) (*Source, error)
}

var originals = map[string]original{
	"asynq": {
		set: map[string]string{"sets": "scheduled,retry"}, address: "redis://127.0.0.1:6379/0", open: onRedis((*reader).asynq),
	},
	"mykit": {
		set: map[string]string{"prefix": "io.mykit.delay", "name": "", "originPool": "pools"}, address: "redis://127.0.0.1:6379/0",
		open: onRedis((*reader).mykit),
	},
	"camellia": {
		set: map[string]string{"namespace": "default"}, address: "redis://127.0.0.1:6379/0", open: onRedis((*reader).camellia),
	},
	"qstash": {
		set: map[string]string{"token": ""}, address: "https://qstash.upstash.io", open: openQStash,
	},
	"ouqiang": {
		set: map[string]string{"bucket_name": "dq_bucket_%d", "queue_name": "dq_queue_%s"}, address: "redis://127.0.0.1:6379/1",
		open: onRedis((*reader).ouqiang),
	},
}

// Names are the names of the sources, sorted.
func Names() []string { return slices.Sorted(maps.Keys(originals)) }

// Open finds the jobs of a source.
func Open(ctx context.Context, name string, o Options) (*Source, error) {
	of, ok := originals[name]
	if !ok {
		return nil, failf(ErrUsage, "--from %s is not known: use ndjson, %s", name, strings.Join(Names(), ", "))
	}
	given := o.Set
	o.Set = maps.Clone(of.set)
	for setting, value := range given {
		if _, ok := of.set[setting]; !ok {
			return nil, failf(ErrUsage, "%s has no setting %q for --set: it has %s", name, setting, strings.Join(slices.Sorted(maps.Keys(of.set)), ", "))
		}
		o.Set[setting] = value
	}
	o.Address = cmp.Or(o.Address, of.address)
	if o.URL != "" && o.Pull {
		return nil, failf(ErrUsage, "use either --to or --pull")
	}
	if _, err := o.urlFor("t", "t"); err != nil {
		return nil, err
	}
	return of.open(ctx, o)
}

var placeholder = regexp.MustCompile(`\{[^}]*\}`)

// urlFor is the URL for a job of a topic and a type.
func (o *Options) urlFor(topic, kind string) (string, error) {
	var err error
	return placeholder.ReplaceAllStringFunc(o.URL, func(name string) string {
		switch name {
		case "{topic}":
			return url.PathEscape(topic)
		case "{type}":
			return url.PathEscape(kind)
		}
		err = failf(ErrUsage, "%s in --to is not known: use {topic} or {type}", name)
		return name
	}), err
}

// registration is that of a job with a body, for the destination that the options name.
func (o *Options) registration(topic, id, kind string, at time.Time, body []byte) client.Registration {
	r := client.Registration{Topic: job.NameOf(topic), ID: job.NameOf(id), At: at, Pull: o.Pull, OnConflict: client.Once}
	r.URL, _ = o.urlFor(topic, kind) // Open checked the placeholders
	setBody(&r, body)
	return r
}

// setBody sets a body byte by byte, with the type that it seems to have.
func setBody(r *client.Registration, body []byte) {
	switch {
	case !utf8.Valid(body):
		r.BodyBytes = body
	case json.Valid(body):
		r.BodyText, r.ContentType = string(body), "application/json"
	default:
		r.BodyText = string(body)
	}
}
