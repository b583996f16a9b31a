package schedule

import (
	"archive/zip"
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

// withRelease adds a file to a zip.
func withRelease(t *testing.T, data []byte, name, content string) []byte {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return zipped(t, func(w *zip.Writer) {
		add(t, w, name, content)
		for _, f := range r.File {
			if err := w.Copy(f); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func zipped(t *testing.T, write func(w *zip.Writer)) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	write(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func add(t *testing.T, w *zip.Writer, name, content string) {
	t.Helper()
	f, err := w.Create(name)
	if err == nil {
		_, err = io.WriteString(f, content)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestZonesOfToday has zones whose rules changed in 2026.
func TestZonesOfToday(t *testing.T) {
	for zone, want := range map[string]string{
		"America/Vancouver": "2026-11-29T16:00:00Z", // on permanent daylight saving time
		"America/Edmonton":  "2026-11-29T15:00:00Z",
		"America/Winnipeg":  "2026-11-29T14:00:00Z",
		"Africa/Casablanca": "2026-11-30T09:00:00Z",
		"America/Chihuahua": "2026-11-29T15:00:00Z", // as before
	} {
		table, err := New(Spec{Cron: "0 9 * * *", Zone: zone})
		if err != nil {
			t.Fatal(err)
		}
		o, ok := table.Next(at(t, "2026-11-29T09:00:00Z"))
		if got := o.UTC().Format(time.RFC3339); !ok || got != want {
			t.Errorf("%s: %s, want %s", zone, got, want)
		}
	}
	if TZData() < "2026b" {
		t.Errorf("the release is %s", TZData())
	}
}

func TestZonesOfAFile(t *testing.T) {
	compiled := func(t *testing.T, name string) string {
		t.Helper()
		data, err := read(builtIn().files[name], maxZone)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	z, err := ReadZones(zipped(t, func(w *zip.Writer) { // the form of a package of Python
		add(t, w, "tzdata/__init__.py", "x = 1\n")
		add(t, w, "tzdata/zoneinfo/UTC", compiled(t, "UTC"))
		add(t, w, "tzdata/zoneinfo/Europe/Berlin", compiled(t, "America/Vancouver"))
		add(t, w, "tzdata/zoneinfo/right/UTC", compiled(t, "UTC"))
		add(t, w, "tzdata/zoneinfo/zone.tab", strings.Repeat("# table\n", maxZone))
		add(t, w, "tzdata/zoneinfo/empty", "")
		add(t, w, "tzdata/zoneinfo/tzdata.zi", "# version 2031a\nR d 1916\n")
	}))
	if err != nil || z.Release != "2031a" || len(z.files) != 2 {
		t.Fatalf("%v, %v", z, err)
	}
	UseZones(z)
	t.Cleanup(func() { UseZones(nil) })
	if berlin, ok := Zone("Europe/Berlin"); !ok || TZData() != "2031a" {
		t.Errorf("no zone, release %s", TZData())
	} else if _, offset := time.Date(2026, 12, 1, 0, 0, 0, 0, berlin).Zone(); offset != -7*60*60 {
		t.Errorf("the offset is %d", offset)
	}
	if _, ok := Zone("America/New_York"); ok {
		t.Error("a zone that the file has not")
	}
	UseZones(nil)
	if _, ok := Zone("America/New_York"); !ok {
		t.Error("no zone of the binary")
	}
}

func TestWrongFilesOfZones(t *testing.T) {
	utc, err := read(builtIn().files["UTC"], maxZone)
	if err != nil {
		t.Fatal(err)
	}
	files := func(pairs ...string) []byte {
		return zipped(t, func(w *zip.Writer) {
			for i := 0; i < len(pairs); i += 2 {
				add(t, w, pairs[i], pairs[i+1])
			}
		})
	}
	for name, tt := range map[string]struct {
		data []byte
		want string
	}{
		"no zip":           {[]byte("# version 2026b\n"), "not a valid zip file"},
		"no release":       {files("UTC", string(utc)), "names no release"},
		"another version":  {files("UTC", string(utc), versionFile, "1.2.3"), "names no release"},
		"the source alone": {files(compactSource, "# version 2026b\n"), "no compiled zones"},
		"a damaged zone":   {files(versionFile, "2026b", "UTC", string(utc), "Europe/Berlin", string(utc[:60])), "Europe/Berlin: "},
		"a large zone":     {files(versionFile, "2026b", "UTC", string(utc)+strings.Repeat(" ", maxZone)), "more than 65536 bytes"},
		"many entries": {zipped(t, func(w *zip.Writer) {
			for range maxZones + 1 {
				add(t, w, "x", "")
			}
		}), "more than 5000"},
	} {
		if _, err := ReadZones(tt.data); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
