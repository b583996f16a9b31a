package metered

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers the metrics of a part with r; nil: nowhere. The error names the part.
func Register(r prometheus.Registerer, part string, metrics ...prometheus.Collector) error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, m := range metrics {
		errs = append(errs, r.Register(m))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register the metrics of %s: %w", part, err)
	}
	return nil
}
