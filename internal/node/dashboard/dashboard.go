package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/duehook/duehook/httpapi"
)

// built are the files in gzip: web/vite.config.js packs them.
//
//go:embed dist
var built embed.FS

const (
	index = "index.html"
	// reference is the page of the API, and referenceFile its file.
	reference, referenceFile = "/docs", "/docs.html"
	// assets are named after their content, so they never change.
	assets = "assets/"
)

// pages are the paths that the script in the index turns into pages. A final *
// stands for anything.
var pages = []string{"/", "/jobs", "/jobs/*", "/schedules", "/schedules/*", "/groups", "/groups/*", "/topics", "/topics/*", "/endpoints", "/dead", "/alerts", "/alerts/*", "/operations", "/inboxes", "/inboxes/*", "/nodes", "/keys", "/register", "/sinks", "/sinks/*"}

// security are the headers of every answer. The pages run no code and take no
// style but their own files', talk to this server only, cannot be framed, and
// never turn a text into HTML (trusted types).
var security = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
}

// types are written down because those of the machine may differ.
var types = map[string]string{
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// Dashboard serves the pages and their files. It is safe for concurrent use.
type Dashboard struct{ files map[string]file } // by path

// New prepares the files that the binary holds.
func New() (*Dashboard, error) {
	root, err := fs.Sub(built, "dist")
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	d := &Dashboard{files: map[string]file{}}
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		if name = strings.TrimSuffix(name, ".gz"); err == nil {
			d.files["/"+name], err = newFile(name, content)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	d.files[reference] = d.files[referenceFile]
	delete(d.files, referenceFile)
	return d, nil
}

// Paths are all that ServeHTTP answers. A final * stands for anything.
func (d *Dashboard) Paths() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(d.files)), pages...)))
}

// ServeHTTP answers GET and HEAD with a file, or, for any other path, with the
// index, whose script knows which page that is.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := d.files[r.URL.Path]
	if !ok {
		f = d.files["/"+index]
	}
	f.serve(w, r)
}

// file is a file as it is served.
type file struct {
	mediaType string
	content   httpapi.Packed
	tag       string // of the content, without the quotes of an ETag
	caching   string
}

func newFile(name string, content []byte) (file, error) {
	sum := sha256.Sum256(content)
	f := file{mediaType: types[path.Ext(name)], content: httpapi.NewPacked(content), tag: hex.EncodeToString(sum[:8]), caching: "no-cache"}
	if f.mediaType == "" {
		return f, fmt.Errorf("%s: files of its type are not served", name)
	}
	if strings.HasPrefix(name, assets) {
		f.caching = "public, max-age=31536000, immutable"
	}
	return f, nil
}

func (f file) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	for name, value := range security {
		header.Set(name, value)
	}
	header.Set("Content-Type", f.mediaType)
	header.Set("Cache-Control", f.caching)
	content, err := f.content.For(r, header)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	tag := f.tag
	if header.Get("Content-Encoding") != "" {
		tag += "-gzip"
	}
	header.Set("ETag", `"`+tag+`"`)
	// The time is unknown: the tag decides what a browser has already.
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
