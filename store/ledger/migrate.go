package ledger

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// migrate migrates the tables. It refuses tables of a newer version.
func migrate(ctx context.Context, pools *pools) error {
	p, err := provider(pools)
	if err != nil {
		return err
	}
	return pools.exclusively(ctx, func() error {
		has, knows, err := p.GetVersions(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("migrate the ledger: %w", err)
		case has > knows:
			return fmt.Errorf("the ledger was written by a newer duehook (its tables have version %d, this one knows %d)", has, knows)
		case has == knows:
			return nil
		}
		pools.silence.migrating.Store(true)
		defer pools.silence.migrating.Store(false)
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrate the ledger: %w", err)
		}
		return nil
	})
}

func provider(pools *pools) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, pools.migrations)
	if err != nil {
		return nil, fmt.Errorf("migrate the ledger: %w", err)
	}
	p, err := goose.NewProvider(pools.goose, pools.write, files)
	if err != nil {
		return nil, fmt.Errorf("migrate the ledger: %w", err)
	}
	return p, nil
}

// ErrNone is the error of Check and Verify if the database has no ledger yet.
var ErrNone = errors.New("there is no ledger")

// Check returns an error unless a ledger of this version and namespace is at url. It changes
// nothing.
func Check(ctx context.Context, url, namespace string) error {
	r, err := openReader(ctx, url, namespace)
	if err != nil {
		return err
	}
	return r.close()
}

// checkVersion refuses a ledger whose tables are not those of this version.
func checkVersion(ctx context.Context, p *pools) error {
	if err := each(ctx, p.read, "SELECT 1 FROM message WHERE 1 = 0", nil, nil); err != nil {
		return fmt.Errorf("%w: %w", ErrNone, err)
	}
	m, err := provider(p)
	if err != nil {
		return err
	}
	has, knows, err := m.GetVersions(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read the ledger's version: %w", err)
	case has != knows:
		return fmt.Errorf("the ledger was written by another version of duehook: its tables have version %d, this one wants %d", has, knows)
	}
	return nil
}

// DefaultNamespace is Options.Namespace when that is empty.
const DefaultNamespace = "default"

// ErrOtherNamespace means that the ledger belongs to another namespace. Otherwise the
// jobs of both would be restored into each, and delivered twice.
var ErrOtherNamespace = errors.New("the ledger belongs to another namespace")

// The document with the namespace of the ledger.
const (
	ownerKind = "ledger"
	ownerName = "namespace"
)

// belong stores the namespace of the ledger unless it has one.
func belong(ctx context.Context, p *pools, namespace string) error {
	if err := checkNamespace(ctx, p, namespace); err != nil {
		return err
	}
	text := p.bind(sqlAddDocument + p.keepOf("version"))
	if _, err := p.write.ExecContext(ctx, text, ownerKind, ownerName, []byte(namespace)); err != nil {
		return fmt.Errorf("write the ledger's namespace: %w", err)
	}
	return checkNamespace(ctx, p, namespace)
}

// checkNamespace refuses the ledger of another namespace.
func checkNamespace(ctx context.Context, p *pools, namespace string) error {
	var version uint64
	var owner []byte
	err := p.read.QueryRowContext(ctx, p.bind(sqlDocument), ownerKind, ownerName).Scan(&version, &owner)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("read the ledger's namespace: %w", err)
	case string(owner) != namespace:
		return fmt.Errorf("%w: it keeps the jobs of %q, not of %q; give each namespace a schema or database of its own (--ledger-url), or start this one with --namespace %s",
			ErrOtherNamespace, owner, namespace, owner)
	}
	return nil
}
