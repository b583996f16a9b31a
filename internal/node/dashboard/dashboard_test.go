package dashboard

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const web = "../../../web"

func get(t *testing.T, method, path string, headers ...string) *http.Response {
	t.Helper()
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, answer *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var fileNamed = regexp.MustCompile(`(?:src|href)="([^"]*)"`)

func TestThePagesAreTheIndexAndItsFiles(t *testing.T) {
	index := body(t, get(t, "GET", "/"))
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range d.Paths() {
		if strings.HasSuffix(path, "*") {
			path = strings.TrimSuffix(path, "*") + "order-timeout/order-1"
		}
		if answer := get(t, "GET", path); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, answer.StatusCode)
		} else if _, file := d.files[path]; !file && body(t, answer) != index {
			t.Errorf("%s is not the index", path)
		}
	}
	named := fileNamed.FindAllStringSubmatch(index, -1)
	if len(named) < 3 {
		t.Fatalf("the index names %d files: the pattern has gone wrong", len(named))
	}
	for _, m := range named {
		if !slices.Contains(d.Paths(), m[1]) {
			t.Errorf("the index names %s, which is not served", m[1])
		}
	}
}

func TestNothingRunsThatIsNotOurs(t *testing.T) {
	policy := get(t, "GET", "/jobs").Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %s", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
	for _, path := range []string{"/", reference} {
		if page := body(t, get(t, "GET", path)); strings.Contains(page, "<style") || regexp.MustCompile(`<script[^>]*>[^<]`).MatchString(page) {
			t.Errorf("%s has code or style of its own, which the policy forbids", path)
		}
	}
}

func TestFilesAreKeptByBrowsers(t *testing.T) {
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for path := range d.files {
		whole := get(t, "GET", path)
		want := "no-cache"
		if strings.HasPrefix(path, "/"+assets) {
			want = "public, max-age=31536000, immutable"
		}
		if got := whole.Header.Get("Cache-Control"); got != want {
			t.Errorf("%s: Cache-Control %q, want %q", path, got, want)
		}
		content, tag := body(t, whole), whole.Header.Get("ETag")
		if content == "" || tag == "" {
			t.Errorf("%s: %d bytes with tag %q", path, len(content), tag)
		}
		if again := get(t, "GET", path, "If-None-Match", tag); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s with its tag: %d", path, again.StatusCode)
		}
		head := get(t, "HEAD", path)
		if head.StatusCode != http.StatusOK || body(t, head) != "" || head.Header.Get("ETag") != tag {
			t.Errorf("HEAD %s: %d with %v", path, head.StatusCode, head.Header)
		}
		packed := get(t, "GET", path, "Accept-Encoding", "br, gzip")
		if packed.Header.Get("ETag") == tag {
			t.Errorf("%s: packed and unpacked share a tag", path)
		}
		r, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if unpacked, err := io.ReadAll(r); err != nil || string(unpacked) != content {
			t.Errorf("%s: packed and unpacked differ (%v)", path, err)
		}
	}
}

// What is committed in dist was built from what is committed in web. `make
// web-test` goes further, and builds it again.
func TestBuiltFilesAreOfTheseSources(t *testing.T) {
	stamped, err := os.ReadFile("sources.sha256")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	for _, source := range []string{"docs.html", "index.html", "package-lock.json", "package.json", "public", "src", "tsconfig.json", "vite.config.js"} {
		err := filepath.WalkDir(filepath.Join(web, source), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(web, path)
			sum.Write([]byte(filepath.ToSlash(name) + "\x00"))
			sum.Write(content)
			sum.Write([]byte{0})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != strings.TrimSpace(string(stamped)) {
		t.Error("web/ has changed since the dashboard was built: run make web")
	}
}

var given = regexp.MustCompile(`\{\w+\}`)

// Both languages have the same texts, with the same gaps to be filled in, and
// each is used.
func TestLanguagesSayTheSame(t *testing.T) {
	english, chinese := texts(t, "en"), texts(t, "zh")
	for key, text := range english {
		if chinese[key] == "" {
			t.Errorf("%s is not in Chinese", key)
		} else if !slices.Equal(gaps(text), gaps(chinese[key])) {
			t.Errorf("%s has the gaps %v in English, %v in Chinese", key, gaps(text), gaps(chinese[key]))
		}
	}
	for key := range chinese {
		if english[key] == "" {
			t.Errorf("%s is not in English", key)
		}
	}
	code := sources(t)
	for key := range english {
		kind, _, _ := strings.Cut(key, ".")
		uses := []string{"'" + key + "'", `"` + key + `"`, "`" + kind + ".${", "word('" + kind + "'"}
		if !slices.ContainsFunc(uses, func(use string) bool { return strings.Contains(code, use) }) {
			t.Errorf("%s is not used", key)
		}
	}
}

func texts(t *testing.T, language string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(web, "src/i18n", language+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]string
	if err := json.Unmarshal(content, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func gaps(text string) []string {
	return slices.Sorted(slices.Values(given.FindAllString(text, -1)))
}

// sources is the code of all pages.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(web, "src"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasPrefix(filepath.Ext(path), ".ts") {
			return err
		}
		content, err := os.ReadFile(path)
		all.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
