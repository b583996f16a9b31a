package redisstore

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// CheckURL returns an error if Options.URL does not have one of its forms. These options may follow behind a question mark:
// pool_size and min_idle_conns (connections), conn_max_idle_time and conn_max_lifetime
// (durations such as 5m), client_name, and with rediss skip_verify=true, which accepts any
// certificate. Others are errors: duehook sets the time limits itself.
//
//go:noinline // as Open
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

func parseURL(raw string) (*redis.UniversalOptions, error) {
	raw, query, _ := strings.Cut(raw, "?")
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, errors.New("redis URL: write redis://host:port, rediss://, redis-sentinel:// or redis-cluster://")
	}
	var o *redis.UniversalOptions
	var err error
	switch scheme {
	case "redis", "rediss":
		o, err = parseSingle(raw)
	case "redis-sentinel":
		o, err = parseSentinel(rest)
	case "redis-cluster":
		o, err = parseCluster(rest)
	default:
		return nil, fmt.Errorf("redis URL: unknown scheme %q; use redis, rediss, redis-sentinel or redis-cluster", scheme)
	}
	if err != nil {
		return nil, err
	}
	if err := setOptions(o, query); err != nil {
		return nil, err
	}
	o.ContextTimeoutEnabled = true
	o.DialTimeout = 2 * time.Second
	// A failed command is retried, which dials again. Retries of dialling would multiply
	// the time until a Redis outage is reported.
	o.DialerRetries = 1
	o.ReadTimeout, o.WriteTimeout = callTimeout, callTimeout
	if o.IsClusterMode {
		o.ReadTimeout = clusterCallTimeout
	}
	// duehook uses neither RESP3 pushes nor client tracking.
	o.Protocol = 2
	o.DisableIdentity = true
	return o, nil
}

func parseSingle(raw string) (*redis.UniversalOptions, error) {
	p, err := redis.ParseURL(raw)
	if err != nil {
		// The cause may quote a part of the URL, and so of the password.
		return nil, errors.New("redis URL: write redis://[user:password@]host:port/db, with special characters of the user and the password percent-encoded")
	}
	return &redis.UniversalOptions{
		Addrs: []string{p.Addr}, DB: p.DB, Username: p.Username, Password: p.Password, TLSConfig: p.TLSConfig,
	}, nil
}

// setOptions applies the options after the question mark. Errors do not quote them, because
// they may be a part of a password.
func setOptions(o *redis.UniversalOptions, query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("redis URL: the options after the question mark are not percent-encoded correctly; in a password write %3F for a question mark")
	}
	for name, given := range values {
		value, err := given[0], error(nil)
		switch {
		case len(given) > 1:
			err = errors.New("must be given once")
		case name == "pool_size":
			o.PoolSize, err = count(value)
		case name == "min_idle_conns":
			o.MinIdleConns, err = count(value)
		case name == "conn_max_idle_time":
			o.ConnMaxIdleTime, err = period(value)
		case name == "conn_max_lifetime":
			o.ConnMaxLifetime, err = period(value)
		case name == "client_name":
			o.ClientName = value
		case name == "skip_verify" && o.TLSConfig != nil && (value == "true" || value == "false"):
			o.TLSConfig.InsecureSkipVerify = value == "true"
		default:
			return errors.New("redis URL: after the question mark, only pool_size, min_idle_conns, conn_max_idle_time, conn_max_lifetime, client_name and, with rediss, skip_verify (true or false) are allowed; in a password write %3F for a question mark")
		}
		if err != nil {
			return fmt.Errorf("redis URL: %s %w", name, err)
		}
	}
	return nil
}

func count(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, errors.New("must be a number of connections from 1 to 65535")
	}
	return int(n), nil
}

func period(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, errors.New("must be a duration such as 90s or 5m")
	}
	return d, nil
}

// parseSentinel reads [user:password@]master@host:port,host:port[/db]. The
// credentials are for the master and its replicas, not for the sentinels.
func parseSentinel(rest string) (*redis.UniversalOptions, error) {
	rest, db, err := cutDB(rest)
	if err != nil {
		return nil, err
	}
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return nil, errors.New("redis URL: write redis-sentinel://master@host:port,host:port: the master's name is missing")
	}
	hosts, err := splitHosts(rest[at+1:], "26379")
	if err != nil {
		return nil, err
	}
	o := &redis.UniversalOptions{Addrs: hosts, DB: db}
	master := rest[:at]
	if i := strings.LastIndexByte(master, '@'); i >= 0 {
		if o.Username, o.Password, err = credentials(master[:i]); err != nil {
			return nil, err
		}
		master = master[i+1:]
	}
	if master == "" {
		return nil, errors.New("redis URL: write redis-sentinel://master@host:port,host:port: the master's name is empty")
	}
	o.MasterName = master
	return o, nil
}

func parseCluster(rest string) (*redis.UniversalOptions, error) {
	rest, db, err := cutDB(rest)
	if err != nil {
		return nil, err
	}
	if db != 0 {
		return nil, errors.New("redis URL: a Redis Cluster has no database numbers; leave /db out")
	}
	o := &redis.UniversalOptions{IsClusterMode: true}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		if o.Username, o.Password, err = credentials(rest[:i]); err != nil {
			return nil, err
		}
		rest = rest[i+1:]
	}
	o.Addrs, err = splitHosts(rest, "6379")
	return o, err
}

func cutDB(rest string) (string, int, error) {
	rest, path, found := strings.Cut(rest, "/")
	if !found || path == "" {
		return rest, 0, nil
	}
	db := 0
	for _, c := range path {
		if c < '0' || c > '9' || db > 1000 {
			return "", 0, errors.New("redis URL: the part after the slash must be a database number")
		}
		db = db*10 + int(c-'0')
	}
	return rest, db, nil
}

func splitHosts(list, port string) ([]string, error) {
	hosts := strings.Split(list, ",")
	for i, h := range hosts {
		if h == "" {
			return nil, errors.New("redis URL: a host is missing in the list")
		}
		host, p, err := net.SplitHostPort(h)
		if err != nil {
			host, p, err = net.SplitHostPort(h + ":" + port)
		}
		if _, bad := strconv.ParseUint(p, 10, 16); err != nil || bad != nil || host == "" {
			return nil, errors.New("redis URL: write each host as host or host:port, an IPv6 address as [address] or [address]:port")
		}
		hosts[i] = net.JoinHostPort(host, p)
	}
	return hosts, nil
}

func credentials(s string) (user, password string, err error) {
	user, password, _ = strings.Cut(s, ":")
	if user, err = url.PathUnescape(user); err != nil {
		return "", "", errors.New("redis URL: the user name is not percent-encoded correctly")
	}
	if password, err = url.PathUnescape(password); err != nil {
		return "", "", errors.New("redis URL: the password is not percent-encoded correctly")
	}
	return user, password, nil
}
