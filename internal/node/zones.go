package node

import (
	"fmt"
	"io"
	"os"

	"github.com/duehook/duehook/internal/schedule"
)

// readZones reads the file of --tzdata; without one, it returns nil.
func readZones(path string) (*schedule.Zones, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--tzdata: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, schedule.MaxZonesFile+1))
	if err != nil {
		return nil, fmt.Errorf("--tzdata %s: %w", path, err)
	}
	if len(data) > schedule.MaxZonesFile {
		return nil, fmt.Errorf("--tzdata %s: it has more than %d bytes", path, schedule.MaxZonesFile)
	}
	zones, err := schedule.ReadZones(data)
	if err != nil {
		return nil, fmt.Errorf("--tzdata %s: %w", path, err)
	}
	return zones, nil
}
