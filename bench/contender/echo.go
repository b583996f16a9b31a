package contender

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/duehook/duehook/bench/system"
)

// Echo is what registrations are compared with: an echo handler that stores
// the request's body by one EVALSHA, without looking into it.
const Echo = "echo"

// API is a server that takes registrations.
type API interface {
	Base() string
	Cost() (Cost, error)
	Close() error
}

// storeScript is the least that registering has to do.
//
// KEYS job due
// ARGV body time id
var storeScript = redis.NewScript(`
redis.call('SET', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3])
return 1
`)

type echoServer struct {
	process *system.Process
	redis   *system.Redis
	base    string
}

// NewEcho starts such a server, with a Redis.
func NewEcho(ctx context.Context, s *Setup) (API, error) {
	r, err := system.StartRedis(ctx, s.Persistence)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	e := &echoServer{redis: r}
	cmd := exec.Command(self, "contender", Echo, "-store", r.URL()) //nolint:gosec,noctx // ourselves; Close ends it
	e.process, err = system.Start(ctx, Echo, cmd, func(line string) bool {
		base, ok := strings.CutPrefix(line, "listening on ")
		e.base = base
		return ok
	})
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return e, nil
}

func (e *echoServer) Base() string { return e.base }

func (e *echoServer) Cost() (Cost, error) { return redisCost([]*system.Process{e.process}, e.redis) }

func (e *echoServer) Close() error { return errors.Join(e.process.Stop(), e.redis.Close()) }

// runEcho is the process.
func runEcho(ctx context.Context, o *options) error {
	where, err := redis.ParseURL(o.storeURL)
	if err != nil {
		return err
	}
	db := redis.NewClient(where)
	if err := storeScript.Load(ctx, db).Err(); err != nil {
		return errors.Join(err, db.Close())
	}
	e := echo.New()
	var last atomic.Int64
	e.POST("/v1/jobs", func(c echo.Context) error {
		body, err := io.ReadAll(c.Request().Body)
		if err != nil {
			return err
		}
		id := strconv.FormatInt(last.Add(1), 10)
		keys := []string{"echo:job:" + id, "echo:due"}
		if err := storeScript.EvalSha(c.Request().Context(), db, keys, body, id, id).Err(); err != nil {
			return err
		}
		return c.NoContent(http.StatusCreated)
	})
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, db.Close())
	}
	server := &http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if _, err := fmt.Fprintf(o.out, "listening on http://%s\n", l.Addr()); err != nil {
		return err
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, db.Close())
	}
	return db.Close()
}
