package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/duehook/duehook/internal/app/schedules"
	"github.com/duehook/duehook/internal/documents"
	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/node/config"
	"github.com/duehook/duehook/internal/schedule"
	"github.com/duehook/duehook/internal/services/hold"
	"github.com/duehook/duehook/internal/services/signing"
	"github.com/duehook/duehook/store"
	"github.com/duehook/duehook/store/diskstore"
	"github.com/duehook/duehook/store/redisstore"
	"github.com/duehook/duehook/store/sqlstore"
)

// The statuses of a Finding.
const (
	FoundOK          = "ok"
	FoundNote        = "note"        // it may be intended
	FoundProblem     = "problem"     // jobs or deliveries are in danger
	FoundUnreachable = "unreachable" // it could not be examined
)

// Finding is a result of Doctor.
type Finding struct {
	Check   string `json:"check"` // what was examined
	Status  string `json:"status"`
	Message string `json:"message"`
}

// Bounds of what Doctor accepts.
const (
	doctorPatience = 5 * time.Second // per server
	// skewNoted is a difference of clocks that people notice; with skewWrong, receivers refuse
	// the timestamps of signatures.
	skewNoted = 2 * time.Second
	skewWrong = 5 * time.Minute
	// expirySoon is when a certificate or a key should have been replaced.
	expirySoon = 14 * 24 * time.Hour
	// filesBesideWorkers are open files for clients, the store and idle connections.
	filesBesideWorkers = 1024
)

// doctor collects findings.
type doctor struct {
	c        *config.Config
	clock    job.Clock
	findings []Finding
	release  string // of the time zones; empty: they cannot be read
}

// Doctor examines what a node with these settings needs. It starts no node, and changes nothing
// that is kept. If deep is true, it reads all that a data directory has.
func Doctor(ctx context.Context, c *config.Config, clock job.Clock, deep bool) []Finding {
	d := &doctor{c: c, clock: clock}
	d.settings()
	d.workers()
	d.files()
	d.dataDir()
	d.jobs(ctx, deep)
	d.masterKey()
	d.certificate()
	d.timeZones()
	d.address(ctx)
	switch c.Store() {
	case config.StoreRedis:
		d.redis(ctx)
	case config.StorePostgres:
		d.postgres(ctx)
	}
	d.inboxes(ctx)
	return d.findings
}

func (d *doctor) found(check, status, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	d.findings = append(d.findings, Finding{check, status, strings.Join(strings.Fields(message), " ")})
}

func (d *doctor) settings() {
	const check = "settings"
	d.found(check, FoundOK, "jobs are %s", jobsAre(d.c))
	if d.c.InsecureNoAPIKeys {
		d.found(check, FoundNote, "the API requires no keys: every client that reaches it has full access; set --api-keys instead of --insecure-no-api-keys")
	}
	now := d.clock.Now()
	for i := range d.c.APIKeys {
		switch k := &d.c.APIKeys[i]; {
		case k.Expired(job.InstantOf(now)):
			d.found(check, FoundNote, "the API key %s has expired; remove it from --api-keys", k.ID)
		case k.Expired(job.InstantOf(now.Add(expirySoon))):
			d.found(check, FoundNote, "the API key %s expires at %s; make another with duehook apikey new", k.ID, k.ExpiresAt.Time().UTC().Format(time.RFC3339))
		}
	}
}

// workers examines whether topics can share workers: each has a part of those of a shard.
func (d *doctor) workers() {
	const check = "workers"
	shards := max(1, d.c.Shards)
	if each := (d.c.Workers + shards - 1) / shards; each > 1 {
		d.found(check, FoundOK, "a topic without attempts in progress finds one of the %d workers of a shard", each)
		return
	}
	d.found(check, FoundNote, "there is a single worker for each of %d shards: while a receiver does not answer, the jobs of all other topics wait; set --workers to %d at least",
		shards, 2*shards)
}

func (d *doctor) files() {
	limit, known := openFiles()
	if !known {
		return
	}
	const check = "open files"
	if needed := uint64(d.c.Workers) + filesBesideWorkers; limit < needed {
		d.found(check, FoundProblem, "the limit is %d, and %d workers need %d: raise it with ulimit -n or LimitNOFILE of the unit, or lower --workers", limit, d.c.Workers, needed)
		return
	}
	d.found(check, FoundOK, "the limit is %d", limit)
}

// private reports whether other users have no access. The group may: volumes of containers need it.
func private(mode fs.FileMode) bool { return runtime.GOOS == "windows" || mode.Perm()&0o007 == 0 }

func (d *doctor) dataDir() {
	const check = "data directory"
	dir := d.c.DataDir
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		parent := filepath.Dir(filepath.Clean(dir))
		if d.writable(check, parent) {
			d.space(check, parent)
		}
		return
	}
	switch {
	case err != nil:
		d.found(check, FoundProblem, "%v; name another directory with --data-dir", err)
		return
	case !info.IsDir():
		d.found(check, FoundProblem, "%s is not a directory; name one with --data-dir", dir)
		return
	case !private(info.Mode()):
		d.found(check, FoundProblem, "%s is open to other users (mode %04o), and has keys and jobs: chmod 700 it", dir, info.Mode().Perm())
	}
	if d.writable(check, dir) {
		d.space(check, dir)
	}
}

func (d *doctor) writable(check, dir string) bool {
	probe, err := os.CreateTemp(dir, ".duehook-doctor-*")
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		d.found(check, FoundProblem, "it cannot be written to: %v; run duehook as the owner of %s, or change its owner", err, dir)
	}
	return err == nil
}

func (d *doctor) space(check, dir string) {
	bytes, left, err := diskstore.Room(dir)
	switch free := humanize.IBytes(bytes); {
	case err != nil:
		d.found(check, FoundNote, "its free space is unknown: %v", err)
	case !d.c.Embedded(): // it has two small files
		d.found(check, FoundOK, "%s", dir)
	case bytes < left:
		d.found(check, FoundProblem, "%s has %s of free space, and new jobs need %s: free space, or name another disk with --data-dir", dir, free, humanize.IBytes(left))
	default:
		d.found(check, FoundOK, "%s has %s of free space", dir, free)
	}
}

// jobs opens the jobs of the data directory as a node does, for reading.
func (d *doctor) jobs(ctx context.Context, deep bool) {
	const check = "jobs"
	n := d.nodeOf(slog.New(slog.DiscardHandler))
	r, err := n.openDiskReader()
	switch {
	case errors.Is(err, diskstore.ErrNothing):
		return
	case errors.Is(err, diskstore.ErrInUse) && deep:
		d.found(check, FoundUnreachable, "a running duehook has %s open: stop it, or examine a backup of it", d.c.DataDir)
		return
	case errors.Is(err, diskstore.ErrInUse):
		d.found(check, FoundOK, "a running duehook has them open")
		return
	case err != nil:
		d.found(check, FoundProblem, "%v", err)
		return
	}
	defer func() { _ = r.Close() }() // it wrote nothing
	if !d.c.Embedded() {
		if err := stranded(ctx, d.c, r); err != nil {
			d.found(check, FoundProblem, "%v", err)
		}
	}
	if d.c.Embedded() {
		if d.c.Signed() {
			d.secrets(ctx, r)
		}
		d.held(ctx, r)
	}
	has := r.Contents()
	if !deep {
		d.found(check, FoundOK, "%d unfinished, %d dead letters; duehook doctor --deep reads all of them", has.Unfinished, has.Dead)
		return
	}
	rows, err := r.ReadAll(ctx)
	if err != nil {
		d.found(check, FoundProblem, "%v", err)
		return
	}
	d.found(check, FoundOK, "%d unfinished, %d dead letters; all %d rows were read", has.Unfinished, has.Dead, rows)
}

// nodeOf is a node that is not started.
func (d *doctor) nodeOf(log *slog.Logger) *node {
	return &node{Options: Options{Config: d.c, Logger: log}, clock: d.clock}
}

func (d *doctor) masterKey() {
	const check = "master key"
	if !d.c.Signed() {
		d.found(check, FoundNote, "deliveries are not signed: --signing is off")
		return
	}
	if keys := d.c.MasterKeys(); len(keys) > 0 {
		d.found(check, FoundOK, "of the settings")
		return
	}
	n := d.nodeOf(nil)
	for _, path := range []string{n.masterKeyPath(), n.secretFile().path} {
		info, err := os.Stat(path)
		if err == nil && !private(info.Mode()) {
			d.found(check, FoundProblem, "%s is open to other users (mode %04o): chmod 600 it, and replace the signing secret if others may have read it", path, info.Mode().Perm())
		}
	}
	text, err := readIfAny(n.masterKeyPath())
	if err == nil && text != "" {
		_, err = documents.ParseMasterKey(text)
	}
	switch {
	case err != nil:
		d.found(check, FoundProblem, "%s: %v; restore it from a backup, or set --master-key", n.masterKeyPath(), err)
	case text != "":
		d.found(check, FoundOK, "in %s", n.masterKeyPath())
	case d.c.Embedded():
		d.found(check, FoundOK, "the first start makes %s", n.masterKeyPath())
	default:
		d.found(check, FoundNote, "there is none: the first node on this %s makes %s; all other nodes need the same, as a copy or in --master-key", serverOf(d.c), n.masterKeyPath())
	}
}

func (d *doctor) certificate() {
	if d.c.TLSCert == "" {
		return
	}
	const check = "certificate"
	pair, err := tls.LoadX509KeyPair(d.c.TLSCert, d.c.TLSKey)
	if err != nil {
		d.found(check, FoundProblem, "--tls-cert and --tls-key: %v", err)
		return
	}
	status, expires := FoundOK, pair.Leaf.NotAfter.UTC().Format(time.RFC3339)
	switch now := d.clock.Now(); {
	case now.After(pair.Leaf.NotAfter):
		d.found(check, FoundProblem, "it expired at %s: replace the files; the node reloads them", expires)
		return
	case now.Add(expirySoon).After(pair.Leaf.NotAfter):
		status = FoundNote
	}
	d.found(check, status, "it expires at %s", expires)
}

const checkZones = "time zones"

func (d *doctor) timeZones() {
	zones, err := readZones(d.c.TZData)
	switch {
	case err != nil:
		d.found(checkZones, FoundProblem, "%v", err)
	case zones != nil:
		d.release = zones.Release
		d.found(checkZones, FoundOK, "release %s, of %s", d.release, d.c.TZData)
	default:
		d.release = schedule.TZData()
		d.found(checkZones, FoundOK, "release %s, part of the program", d.release)
	}
}

func (d *doctor) address(ctx context.Context) {
	const check = "address"
	var listen net.ListenConfig
	ln, err := listen.Listen(ctx, "tcp", d.c.Addr)
	if err != nil {
		d.found(check, FoundNote, "%v; a running duehook uses it, or set --addr", err)
		return
	}
	_ = ln.Close()
	d.found(check, FoundOK, "%s is free", d.c.Addr)
}

func (d *doctor) redis(ctx context.Context) {
	const check = "redis"
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	c, log := d.c, slog.New(&findingLog{d: d, check: check})
	s, err := redisstore.OpenReader(ctx, redisstore.Options{
		URL: c.RedisURL, Namespace: c.Namespace, Shards: c.Shards, MinReplicas: c.RedisMinReplicas, Logger: log,
	})
	if err != nil {
		d.found(check, statusOf(err), "%s: %v", config.Redact(c.RedisURL), err)
		return
	}
	defer func() { _ = s.Close() }() // it wrote nothing
	before := d.clock.Now()
	now, err := store.Now(ctx, s)
	if err != nil {
		d.found(check, FoundUnreachable, "%v", err)
		return
	}
	version, err := s.ServerVersion(ctx)
	if err != nil {
		version = "of an unknown version"
	}
	d.found(check, FoundOK, "%s answers: Redis %s", config.Redact(c.RedisURL), version)
	if err := s.Takes(ctx); err != nil {
		d.found(check, FoundProblem, "it takes no jobs: %v", err)
	}
	d.skew(now.Time().Sub(before), d.clock.Now().Sub(before))
	d.shared(ctx, check, s)
}

// shared examines what the nodes of a server share.
func (d *doctor) shared(ctx context.Context, check string, docs store.Documents) {
	if d.c.Signed() {
		d.secrets(ctx, docs)
	}
	d.held(ctx, docs)
	newest, err := schedules.NewestRelease(ctx, docs)
	if err != nil {
		d.found(check, FoundUnreachable, "%v", err)
	} else if newest > d.release && d.release != "" {
		d.found(checkZones, FoundProblem, "nodes of this %s have had release %s, so this one would not look after schedules: install a newer version of duehook, or give it that release with --tzdata", serverOf(d.c), newest)
	}
}

func (d *doctor) postgres(ctx context.Context) {
	const check = "postgres"
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	url := config.Redact(d.c.PostgresURL)
	before := d.clock.Now()
	s, err := sqlstore.OpenReader(ctx, postgresOptions(d.c, nil))
	switch {
	case errors.Is(err, sqlstore.ErrNoTables):
		d.found(check, FoundOK, "%s answers; the first node makes the tables in the schema %s", url, d.c.PostgresSchema)
		return
	case sqlstore.IsAway(err):
		d.found(check, FoundUnreachable, "%s: %v", url, err)
		return
	case err != nil:
		d.found(check, FoundProblem, "%s: %v", url, err)
		return
	}
	defer func() { _ = s.Close() }() // it wrote nothing
	now, err := store.Now(ctx, s)
	if err != nil {
		d.found(check, FoundUnreachable, "%v", err)
		return
	}
	d.skew(now.Time().Sub(before), d.clock.Now().Sub(before))
	if err := s.Takes(ctx); err != nil {
		d.found(check, FoundProblem, "it takes no jobs: %v", err)
	}
	if facts, err := s.Facts(ctx); err != nil {
		d.found(check, FoundUnreachable, "%v", err)
	} else {
		d.server(check, url, &facts)
	}
	if err := s.Hears(ctx); err != nil {
		d.found(check, FoundProblem, "notifications do not arrive: %v; if --postgres-url names a pooler, set --postgres-direct-url", err)
	}
	d.shared(ctx, check, s)
}

// server judges a PostgreSQL server.
func (d *doctor) server(check, url string, f *sqlstore.Facts) {
	d.found(check, FoundOK, "%s answers: PostgreSQL %s, schema %s", url, f.Version, d.c.PostgresSchema)
	for _, t := range f.Troubles() {
		d.found(check, FoundProblem, "%s", t.Message)
	}
	if grant := f.SeeOthers(); grant != "" {
		d.found(check, FoundNote, "the role does not see transactions of others, which may keep PostgreSQL from removing old versions of rows: let an administrator run %s", grant)
	}
	if free := f.MaxConnections - f.Connections; free < d.c.PostgresConnections {
		d.found(check, FoundNote, "%d of %d connections are in use, and a node needs up to %d more: lower --postgres-connections, or raise max_connections", f.Connections, f.MaxConnections, d.c.PostgresConnections+1)
	}
}

// skew judges how far the clock of the server is ahead, as read by a call of some duration.
func (d *doctor) skew(ahead, call time.Duration) {
	const check = "clock"
	switch off := max(ahead-call, -ahead); {
	case off > skewWrong:
		d.found(check, FoundProblem, "this machine and %s differ by %v: receivers refuse signatures with a wrong time; synchronize both by NTP", serverOf(d.c), off.Round(time.Second))
	case off > skewNoted:
		d.found(check, FoundNote, "this machine and %[1]s differ by %[2]v; %[1]s decides when jobs are due; synchronize both by NTP", serverOf(d.c), off.Round(time.Second))
	default:
		d.found(check, FoundOK, "this machine and %s agree", serverOf(d.c))
	}
}

// secrets reports secrets that the master keys do not open. Their keyring logs them.
func (d *doctor) secrets(ctx context.Context, docs store.Documents) {
	const check = "signing secrets"
	keys, _ := d.nodeOf(nil).masterKeys() // masterKey reports errors
	secrets, err := signing.New(signing.Options{Documents: docs, Seal: documents.NewSeal(keys...), Clock: d.clock, Logger: slog.New(&findingLog{d: d, check: check})})
	if err == nil {
		err = secrets.Load(ctx)
	}
	if err != nil {
		d.found(check, FoundProblem, "%v", err)
	}
}

// held reports that no node on the store delivers.
func (d *doctor) held(ctx context.Context, docs store.Documents) {
	const check = "deliveries"
	switch held, err := hold.Read(ctx, docs); {
	case err != nil:
		d.found(check, FoundUnreachable, "%v", err)
	case held != nil:
		d.found(check, FoundProblem, "they are held: %s", held.Reason())
	}
}

// statusOf is the status of a server that could not be examined.
func statusOf(err error) string {
	_, network := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, store.ErrOtherLayout), errors.As(err, new(*redisstore.VersionError)):
		return FoundProblem
	case network, store.Unreachable(err):
		return FoundUnreachable
	}
	return FoundProblem
}

// findingLog turns what a part logs into findings: a warning is a problem.
type findingLog struct {
	mu    sync.Mutex
	d     *doctor
	check string
	attrs []slog.Attr
}

func (*findingLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l *findingLog) Handle(_ context.Context, r slog.Record) error {
	var text strings.Builder
	text.WriteString(r.Message)
	sep := " ("
	write := func(a slog.Attr) bool {
		fmt.Fprintf(&text, "%s%s %v", sep, a.Key, a.Value)
		sep = ", "
		return true
	}
	for _, a := range l.attrs {
		write(a)
	}
	r.Attrs(write)
	if sep != " (" {
		text.WriteString(")")
	}
	status := FoundNote
	if r.Level >= slog.LevelWarn {
		status = FoundProblem
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.d.found(l.check, status, "%s", text.String())
	return nil
}

func (l *findingLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &findingLog{d: l.d, check: l.check, attrs: append(l.attrs[:len(l.attrs):len(l.attrs)], attrs...)}
}

func (l *findingLog) WithGroup(string) slog.Handler { return l }
