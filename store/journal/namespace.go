package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// DefaultNamespace is Options.Namespace when that is empty.
const DefaultNamespace = "default"

// ErrOtherNamespace means that the journal belongs to another namespace. Otherwise the
// jobs of both would be restored into each, and delivered twice.
var ErrOtherNamespace = errors.New("the journal belongs to another namespace")

// The document with the namespace of the journal.
const (
	ownerKind = "journal"
	ownerName = "namespace"
)

// belong stores the namespace of the journal unless it has one.
func belong(ctx context.Context, p *pools, d dialect, namespace string) error {
	text := d.words().bind(sqlAddDocument + d.words().keepOf("version"))
	if _, err := p.write.ExecContext(ctx, text, ownerKind, ownerName, []byte(namespace)); err != nil {
		return fmt.Errorf("write the journal's namespace: %w", err)
	}
	return checkNamespace(ctx, p, d, namespace)
}

// checkNamespace refuses the journal of another namespace.
func checkNamespace(ctx context.Context, p *pools, d dialect, namespace string) error {
	var version uint64
	var owner []byte
	err := p.read.QueryRowContext(ctx, d.words().bind(sqlDocument), ownerKind, ownerName).Scan(&version, &owner)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("read the journal's namespace: %w", err)
	case string(owner) != namespace:
		return fmt.Errorf("%w: it keeps the jobs of %q, not of %q; give each namespace a schema or database of its own (--ledger-url), or start this one with --namespace %s",
			ErrOtherNamespace, owner, namespace, owner)
	}
	return nil
}
