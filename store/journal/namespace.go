package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// DefaultNamespace is Options.Namespace when that is empty.
const DefaultNamespace = "default"

// ErrOtherNamespace means that the journal is another namespace's. Jobs of both
// would be put back into either, and delivered twice.
var ErrOtherNamespace = errors.New("the journal belongs to another namespace")

// The document that says whose the journal is.
const (
	ownerKind = "journal"
	ownerName = "namespace"
)

// belong makes the journal that of a namespace, unless it is another's.
func belong(ctx context.Context, p *pools, d dialect, namespace string) error {
	text := d.bind(sqlAddDocument + d.keep())
	if _, err := p.write.ExecContext(ctx, text, ownerKind, ownerName, []byte(namespace)); err != nil {
		return fmt.Errorf("write the journal's namespace: %w", err)
	}
	return checkNamespace(ctx, p, d, namespace)
}

// checkNamespace refuses the journal of another namespace.
func checkNamespace(ctx context.Context, p *pools, d dialect, namespace string) error {
	var version uint64
	var owner []byte
	err := p.read.QueryRowContext(ctx, d.bind(sqlDocument), ownerKind, ownerName).Scan(&version, &owner)
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
