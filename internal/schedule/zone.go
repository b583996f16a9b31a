package schedule

import (
	"archive/zip"
	"bytes"
	_ "embed" // zoneinfo.zip.zst
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
)

// zoneinfo is the release that is part of the binary. internal/schedule/tzdata makes the file. Nodes of one version agree on
// every zone, whatever their machines have installed.
//
//go:embed zoneinfo.zip.zst
var zoneinfo []byte

// Zones is a release of the IANA time zone database. It is safe for concurrent use.
type Zones struct {
	Release string // such as 2026b; a later one has a greater string

	files  map[string]*zip.File
	mu     sync.Mutex
	loaded map[string]*time.Location
}

// Bounds of a file with zones.
const (
	MaxZonesFile = 16 << 20 // bytes
	maxZones     = 5000
	maxZone      = 64 << 10 // bytes
)

var (
	builtIn = sync.OnceValue(func() *Zones {
		data, err := unpack(zoneinfo)
		var z *Zones
		if err == nil {
			z, err = index(data)
		}
		if err != nil {
			panic("schedule: zoneinfo.zip.zst: " + err.Error()) // the binary was built wrong
		}
		return z
	})
	inUse atomic.Pointer[Zones]
)

// current returns the zones of the process.
func current() *Zones {
	if z := inUse.Load(); z != nil {
		return z
	}
	return builtIn()
}

// UseZones replaces the zones of the process, for all timetables that are made later; nil: by those of the binary.
func UseZones(z *Zones) { inUse.Store(z) }

// TZData is the release of the IANA time zone database that is in use.
func TZData() string { return current().Release }

// notZones are entries of the database that name no zone.
var notZones = []string{"Factory", "localtime", "posixrules"}

// The files of a zoneinfo directory that name its release.
const (
	compactSource = "tzdata.zi" // "# version 2026b" in its first line
	versionFile   = "+VERSION"
)

var (
	releaseForm = regexp.MustCompile(`^(?:# version )?([0-9]{4}[a-z]{1,2})(?:\s|$)`)
	magic       = []byte("TZif")
)

// ReadZones reads a zip of a zoneinfo directory, such as /usr/share/zoneinfo. The directory may lie within others.
// It has the compiled zones, and the release in tzdata.zi or +VERSION. Each zone is checked.
func ReadZones(data []byte) (*Zones, error) {
	z, err := index(data)
	if err != nil {
		return nil, err
	}
	for name, f := range z.files {
		switch zone, err := isZone(f); {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case !zone: // a table or a text
			delete(z.files, name)
			continue
		}
		if _, err := z.load(name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if z.files["UTC"] == nil || z.files["Europe/Berlin"] == nil {
		return nil, errors.New("it has no compiled zones: zip a directory such as /usr/share/zoneinfo")
	}
	return z, nil
}

// index finds the files of zones, which are the files beside the one that names the release.
func index(data []byte) (*Zones, error) {
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	if len(r.File) > maxZones {
		return nil, fmt.Errorf("it has %d entries, more than %d: leave out the folders right and posix", len(r.File), maxZones)
	}
	z := &Zones{files: make(map[string]*zip.File, len(r.File)), loaded: map[string]*time.Location{}}
	root := ""
	for _, f := range r.File {
		if base := path.Base(f.Name); z.Release == "" && (base == compactSource || base == versionFile) {
			text, err := read(f, MaxZonesFile)
			if err != nil {
				return nil, err
			}
			if m := releaseForm.FindSubmatch(text); m != nil {
				z.Release, root = string(m[1]), strings.TrimSuffix(f.Name, base)
			}
		}
	}
	if z.Release == "" {
		return nil, fmt.Errorf("it names no release: add %s, whose first line is \"# version 2026b\" or the like, or %s", compactSource, versionFile)
	}
	for _, f := range r.File {
		name, within := strings.CutPrefix(f.Name, root)
		folder, _, _ := strings.Cut(name, "/")
		if within && !strings.HasSuffix(name, "/") && !slices.Contains(notZones, name) && folder != "posix" && folder != "right" &&
			name != compactSource && name != versionFile {
			z.files[name] = f
		}
	}
	return z, nil
}

// isZone reports whether a file is a compiled zone.
func isZone(f *zip.File) (bool, error) {
	r, err := f.Open()
	if err != nil {
		return false, err
	}
	defer func() { _ = r.Close() }()
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(r, begin); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return bytes.Equal(begin, magic), nil
}

// read reads a file of at most limit bytes.
func read(f *zip.File, limit int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, err
}

// unpack takes 1.3 ms, once in a process that needs a zone.
func unpack(packed []byte) ([]byte, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	return decoder.DecodeAll(packed, nil)
}

// Zone returns the zone of an IANA name, in the exact spelling of the database;
// false if it has none of this name.
func Zone(name string) (*time.Location, bool) { return current().zone(name) }

func (z *Zones) zone(name string) (*time.Location, bool) {
	if z.files[name] == nil {
		return nil, false
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if loc := z.loaded[name]; loc != nil {
		return loc, true
	}
	loc, err := z.load(name)
	if err != nil {
		return nil, false
	}
	z.loaded[name] = loc
	return loc, true
}

func (z *Zones) load(name string) (*time.Location, error) {
	data, err := read(z.files[name], maxZone)
	if err != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData(name, data)
}
