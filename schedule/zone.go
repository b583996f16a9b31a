package schedule

import (
	"archive/zip"
	"bytes"
	_ "embed" // zoneinfo.zip.zst
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// TZData is the release of the IANA time zone database in zoneinfo.zip.zst, which is
// lib/time/zoneinfo.zip of Go 1.26.8 after "zstd --ultra -22". Nodes of one version agree on every
// zone, whatever their machines have installed.
const TZData = "2025c"

//go:embed zoneinfo.zip.zst
var zoneinfo []byte

// notZones are entries of the database that name no zone.
var notZones = []string{"Factory", "localtime", "posixrules"}

// zones indexes the database by name. It keeps zones that were loaded.
var zones = struct {
	index  func() map[string]*zip.File
	mu     sync.Mutex
	loaded map[string]*time.Location
}{
	index: sync.OnceValue(func() map[string]*zip.File {
		r, err := unpack(zoneinfo)
		if err != nil {
			panic("schedule: zoneinfo.zip.zst: " + err.Error()) // the binary was built wrong
		}
		index := make(map[string]*zip.File, len(r.File))
		for _, f := range r.File {
			if !strings.HasSuffix(f.Name, "/") && !slices.Contains(notZones, f.Name) {
				index[f.Name] = f
			}
		}
		return index
	}),
	loaded: map[string]*time.Location{},
}

// unpack takes 1.3 ms, once in a process that needs a zone.
func unpack(packed []byte) (*zip.Reader, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	data, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(data), int64(len(data)))
}

// Zone returns the zone of an IANA name, in the exact spelling of the database;
// false if it has none of this name.
func Zone(name string) (*time.Location, bool) {
	file, ok := zones.index()[name]
	if !ok {
		return nil, false
	}
	zones.mu.Lock()
	defer zones.mu.Unlock()
	if loc := zones.loaded[name]; loc != nil {
		return loc, true
	}
	r, err := file.Open()
	if err != nil {
		return nil, false
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, false
	}
	loc, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, false
	}
	zones.loaded[name] = loc
	return loc, true
}
