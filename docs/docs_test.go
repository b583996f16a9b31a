// Package docs holds the documents against what they describe.
package docs

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/cli"
	"github.com/duehook/duehook/internal/node/config"
)

const root = ".."

// files reads all files below the root whose name ends so, by path from there.
func files(t *testing.T, suffix string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "build" || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(d.Name(), suffix):
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		found[filepath.ToSlash(name)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// documents are all Markdown files.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := files(t, ".md")
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "docs/operations.md"} {
		if all[name] == "" {
			t.Fatalf("%s is missing", name)
		}
	}
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
)

func TestLinksLeadSomewhere(t *testing.T) {
	docs, links := documents(t), 0
	headings := make(map[string][]string, len(docs))
	for name, text := range docs {
		docs[name] = fence.ReplaceAllString(text, "")
		headings[name] = anchors(docs[name])
	}
	for name, text := range docs {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := m[1]
			if strings.Contains(target, "://") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(target, "#")
			path := name
			if file != "" {
				path = filepath.ToSlash(filepath.Join(filepath.Dir(name), file))
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, target)
				continue
			}
			if anchor != "" && !slices.Contains(headings[path], anchor) {
				t.Errorf("%s links to %s, which has no such heading", name, target)
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links found: the pattern has gone wrong", links)
	}
}

var (
	quoted  = regexp.MustCompile("`([^` ]+)`|\\*\\*([a-z]+)\\*\\*")
	source  = regexp.MustCompile(`^[\w./-]+\.(go|lua|md|pml|proto|sql|ts|tsx|yaml|yml)$`)
	inStore = regexp.MustCompile("^ of each store")
)

// TestMapNamesFiles: each file in the map of the code is there. A name without a path is in a folder that
// the same row or paragraph names before it, or in each store.
func TestMapNamesFiles(t *testing.T) {
	docs := documents(t)
	text := fence.ReplaceAllString(docs["ARCHITECTURE.md"]+"\n\n"+docs["docs/rooms.md"]+"\n\n"+docs["docs/words.md"], "")
	exists := func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err == nil
	}
	checked := 0
	for _, part := range regexp.MustCompile(`\n\n|\n\|`).Split(text, -1) {
		folders := []string{"."}
		for _, at := range quoted.FindAllStringSubmatchIndex(part, -1) {
			name, rest := part[at[0]:at[1]], part[at[1]:]
			name = strings.Trim(name, "`*")
			file := source.MatchString(name)
			found := ""
			for _, folder := range slices.Concat(folders, []string{"store"}) {
				if path := filepath.Join(folder, name); exists(path) {
					found = path
				}
			}
			switch {
			case !file && found != "":
				folders = append(folders, found)
				continue
			case !file:
				continue
			case found == "" && inStore.MatchString(rest) && exists("store/diskstore/"+name) && exists("store/redisstore/"+name) && exists("store/sqlstore/"+name):
			case found == "":
				t.Errorf("the map names %s, which is in none of %v", name, folders)
			default:
				folders = append(folders, filepath.Dir(found))
			}
			checked++
		}
	}
	if checked < 100 {
		t.Errorf("only %d files found: the pattern has gone wrong", checked)
	}
}

// TestMapHasEveryPackage: the tree of packages in the map of the code has the folders that there are.
func TestMapHasEveryPackage(t *testing.T) {
	_, tree, _ := strings.Cut(documents(t)["docs/rooms.md"], "## Packages\n\n```\n")
	tree, _, _ = strings.Cut(tree, "```")
	listed, above := map[string]bool{}, ""
	for line := range strings.Lines(tree) {
		inner := strings.HasPrefix(line, "  ")
		names, _, _ := strings.Cut(strings.TrimSpace(line), "  ")
		for i, word := range strings.Fields(names) {
			if i > 0 && !strings.HasSuffix(word, "/") {
				break
			}
			path := strings.TrimSuffix(word, "/")
			if inner {
				path = above + "/" + path
			} else {
				above = path
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("the tree of packages has %s, which is not there", path)
			}
			listed[path] = true
		}
	}
	for name := range files(t, ".go") {
		top, _, below := strings.Cut(name, "/")
		if folder := filepath.Dir(name); below && slices.Contains([]string{"internal", "httpapi", "store"}, top) &&
			!listed[folder] && folder != "httpapi/rpc/duehookv1" {
			t.Errorf("the tree of packages lacks %s", folder)
		}
	}
}

var decision = regexp.MustCompile(`(?:ADR |adr/)0*([1-9][0-9]*)`)

// TestDecisionsExist: comments and documents name decisions that there are, and the index has each of them.
func TestDecisionsExist(t *testing.T) {
	names, err := filepath.Glob("adr/[0-9]*.md")
	if err != nil || len(names) < 10 {
		t.Fatalf("found %d decisions, error %v", len(names), err)
	}
	index, known := documents(t)["docs/adr/README.md"], map[int]bool{}
	for _, name := range names {
		var number int
		if _, err := fmt.Sscanf(filepath.Base(name), "%d-", &number); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		known[number] = true
		if !strings.Contains(index, "]("+filepath.Base(name)+")") {
			t.Errorf("the index lacks %s", name)
		}
	}
	for _, suffix := range []string{".go", ".lua", ".sql", ".md", ".pml", ".ts", ".tsx"} {
		for name, text := range files(t, suffix) {
			for _, m := range decision.FindAllStringSubmatch(text, -1) {
				if number, _ := strconv.Atoi(m[1]); !known[number] {
					t.Errorf("%s names decision %s, which is not there", name, m[1])
				}
			}
		}
	}
}

var sidebarLink = regexp.MustCompile(`'/([a-z/-]+)'`)

// TestSidebarHasEveryPage: the site's sidebar names each page once, and nothing else.
func TestSidebarHasEveryPage(t *testing.T) {
	content, err := os.ReadFile(".vitepress/pages.js")
	if err != nil {
		t.Fatal(err)
	}
	var listed, pages []string
	for _, m := range sidebarLink.FindAllStringSubmatch(string(content), -1) {
		listed = append(listed, strings.TrimSuffix(m[1], "/"))
	}
	for name := range documents(t) {
		page, ours := strings.CutPrefix(strings.TrimSuffix(name, ".md"), "docs/")
		switch {
		case !ours || page == "README":
		case page == "adr/README" || page == "migrate/README":
			pages = append(pages, filepath.Dir(page))
		case !strings.HasPrefix(page, "adr/"):
			pages = append(pages, page)
		}
	}
	slices.Sort(listed)
	slices.Sort(pages)
	if !slices.Equal(listed, pages) {
		t.Errorf("the sidebar has\n%v\nthe pages are\n%v", listed, pages)
	}
}

// TestListForAgents: docs/llms.txt names each page once, and nothing else.
func TestListForAgents(t *testing.T) {
	var listed, pages []string
	for _, m := range link.FindAllStringSubmatch(read(t, "docs/llms.txt"), -1) {
		listed = append(listed, m[1])
	}
	for name := range documents(t) {
		page, ours := strings.CutPrefix(name, "docs/")
		if ours && page != "README.md" && (!strings.HasPrefix(page, "adr/") || page == "adr/README.md") {
			pages = append(pages, page)
		}
	}
	slices.Sort(listed)
	slices.Sort(pages)
	if !slices.Equal(listed, pages) {
		t.Errorf("docs/llms.txt has\n%v\nthe pages are\n%v", listed, pages)
	}
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchors are the names that headings are linked by, in a text without fenced blocks.
func anchors(text string) []string {
	var names []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		name := notInAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

var (
	option   = regexp.MustCompile(`--[a-z][a-z-]+`)
	variable = regexp.MustCompile(`DUEHOOK_[A-Z_]+`)
	target   = regexp.MustCompile("(?m)(?:`|^)make ([a-z0-9-]+)")
)

// foreign are flags of other programs.
var foreign = []string{
	"--appendonly", "--appendfsync", "--maxmemory-policy", "--port", // redis-server
	"--always", "--tags", // git
	"--no-create-home", "--from-literal", "--now", "--set", "--shell", "--system", // useradd, systemctl
	"--test",                                                                                                                                                                       // node
	"--rdb",                                                                                                                                                                        // redis-cli
	"--add-host", "--build", "--build-arg", "--name", "--network", "--no-deps", "--platform", "--profile", "--push", "--restart", "--rm", "--scale", "--stop-timeout", "--volumes", // docker
	"--deep", "--frozen", "--expires", "--rate", "--scope", "--topics", // doctor, dev and apikey new, in main.go
}

func TestSettingsExist(t *testing.T) {
	flags := option.FindAllString(config.Usage(), -1)
	flags = append(append(flags, foreign...), "--help")
	for _, command := range cli.New(cli.Options{}) {
		flags = append(flags, flagsOf(command)...)
	}
	variables := variable.FindAllString(documents(t)["docs/settings.md"], -1) // held against the code by node/config
	variables = append(variables, cli.Variables...)
	for name, text := range documents(t) {
		for _, f := range option.FindAllString(text, -1) {
			if !slices.Contains(flags, f) {
				t.Errorf("%s names %s, which is no setting", name, f)
			}
		}
		for _, v := range variable.FindAllString(text, -1) {
			v = strings.TrimSuffix(strings.TrimSuffix(v, "_FILE"), "_")
			if v != "DUEHOOK" && !slices.Contains(variables, v) {
				t.Errorf("%s names %s, which is no setting", name, v)
			}
		}
	}
}

// TestDeployedSettingsExist: a misspelt variable stops the node.
func TestDeployedSettingsExist(t *testing.T) {
	known := append(settingsOf(t), cli.Variables...)
	found := 0
	err := filepath.WalkDir(filepath.Join(root, "deploy"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, v := range variable.FindAllString(string(text), -1) {
			found++
			if v != "DUEHOOK_" && !slices.Contains(known, v) {
				t.Errorf("%s sets %s, which is no setting", path, v)
			}
		}
		return err
	})
	if err != nil || found < 20 {
		t.Errorf("%d variables found: %v", found, err)
	}
}

// flagsOf are the flags of a command and of those below it.
func flagsOf(cmd *cobra.Command) []string {
	var flags []string
	add := func(f *pflag.Flag) { flags = append(flags, "--"+f.Name) }
	cmd.Flags().VisitAll(add)
	cmd.PersistentFlags().VisitAll(add)
	for _, sub := range cmd.Commands() {
		flags = append(flags, flagsOf(sub)...)
	}
	return flags
}

var (
	goCommand  = regexp.MustCompile("go (?:run|test|build) [^\n`|]*")
	exampleDir = regexp.MustCompile(`docs/examples/[\w/.-]*\w`)
)

// TestCommandsNameFolders: commands of the documents name packages and files that there are.
func TestCommandsNameFolders(t *testing.T) {
	found := 0
	for name, text := range documents(t) {
		paths := exampleDir.FindAllString(text, -1)
		for _, command := range goCommand.FindAllString(text, -1) {
			for word := range strings.FieldsSeq(command) {
				if path, ok := strings.CutPrefix(word, "./"); ok {
					paths = append(paths, strings.TrimSuffix(path, "..."))
				}
			}
		}
		for _, path := range paths {
			found++
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s names %s, which is not there", name, path)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d paths found: the pattern has gone wrong", found)
	}
}

var (
	ownCommand = regexp.MustCompile("(?m)(?:^(?:\\$ )?|`|\")(?:bin/)?duehook ([a-z]+[^\\n`\"|;&>]*(?:\"[^\\n`\"]*\"[^\\n`\"|;&>]*)*)")
	shellWord  = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`)
)

// TestCommandsAreTaken: the program takes the client's commands in documents and templates for issues, with their flags and arguments.
func TestCommandsAreTaken(t *testing.T) {
	texts := documents(t)
	for _, name := range []string{"defect.yml", "proposal.yml"} {
		name = ".github/ISSUE_TEMPLATE/" + name
		texts[name] = read(t, name)
	}
	found := 0
	for name, text := range texts {
		for _, m := range ownCommand.FindAllStringSubmatch(strings.ReplaceAll(text, "\\\n", ""), -1) {
			line, _, _ := strings.Cut(m[1], " #")
			known, err := taken(shellWord.FindAllString(line, -1))
			if err != nil {
				t.Errorf("%s: duehook %s: %v", name, m[1], err)
			}
			if known {
				found++
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d commands found: the pattern has gone wrong", found)
	}
}

// taken reports whether the client has the command, and its error for the flags or arguments. Without arguments, the text only
// names the command.
func taken(words []string) (known bool, err error) {
	all := &cobra.Command{}
	all.AddCommand(cli.New(cli.Options{})...)
	command, rest, _ := all.Find(words)
	if command == all {
		return false, nil
	}
	if slices.Contains(rest, "--all") && command.Flags().Lookup("all") == nil {
		return false, nil // of a whole store, in main.go
	}
	if last := len(rest) - 1; last >= 0 && strings.HasPrefix(rest[last], "--") {
		rest = rest[:last] // a name, without its value
	}
	if err := command.ParseFlags(rest); err != nil || command.Flags().NArg() == 0 {
		return true, err
	}
	return true, command.ValidateArgs(command.Flags().Args())
}

func TestMakeTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for name, text := range documents(t) {
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			named++
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s names make %s, which the Makefile does not have", name, m[1])
			}
		}
	}
	if named < 5 {
		t.Errorf("only %d make targets found: the pattern has gone wrong", named)
	}
}

var (
	calls    = regexp.MustCompile("\\b(GET|POST|PUT|PATCH|DELETE) (/v1/[^\\s`?'\"),;|…]+)")
	openPath = regexp.MustCompile(`(?m)^  (/v1/\S+):$|^    (get|post|put|patch|delete):`)
	pathPart = regexp.MustCompile(`\{[^}]+\}`)
)

// TestCallsExist: the calls that documents name are those of the OpenAPI documents.
func TestCallsExist(t *testing.T) {
	var known []*regexp.Regexp
	for _, file := range []string{"httpapi/openapi.yaml", "internal/node/dev/openapi.yaml"} {
		path := ""
		for _, m := range openPath.FindAllStringSubmatch(read(t, file), -1) {
			if m[1] != "" {
				path = pathPart.ReplaceAllString(m[1], `[^/]+`)
				continue
			}
			known = append(known, regexp.MustCompile("^"+strings.ToUpper(m[2])+" "+path+"$"))
		}
	}
	found := 0
	for name, text := range documents(t) {
		for _, m := range calls.FindAllStringSubmatch(text, -1) {
			found++
			call := m[1] + " " + strings.TrimRight(m[2], "./:")
			if !slices.ContainsFunc(known, func(k *regexp.Regexp) bool { return k.MatchString(call) }) {
				t.Errorf("%s names the call %s, which is in no OpenAPI document", name, call)
			}
		}
	}
	if len(known) < 60 || found < 60 {
		t.Errorf("only %d calls and %d of the documents found: a pattern has gone wrong", len(known), found)
	}
}

var refusal = regexp.MustCompile("\\b([45]\\d\\d) `([a-z_]+)`")

// TestCodesHaveTheirStatus: documents name errors as the API answers them.
func TestCodesHaveTheirStatus(t *testing.T) {
	known := []string{"409 `clock_unfinished`"} // of duehook dev
	for _, c := range httpapi.Codes() {
		known = append(known, fmt.Sprintf("%d `%s`", c.Status, c.Name))
	}
	found := 0
	for name, text := range documents(t) {
		for _, r := range refusal.FindAllString(text, -1) {
			found++
			if !slices.Contains(known, r) {
				t.Errorf("%s names %s, which the API does not answer", name, r)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d errors found: the pattern has gone wrong", found)
	}
}

var (
	metric        = regexp.MustCompile(`\bduehook_[a-z_]+[a-z]`)
	metricInCode  = regexp.MustCompile(`"(duehook_[a-z_]+)"`)
	histogramPart = regexp.MustCompile(`_(bucket|sum|count)$`)
)

func TestMetricsExistAndAreExplained(t *testing.T) {
	var code []string
	for name, text := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range metricInCode.FindAllStringSubmatch(text, -1) {
			code = append(code, m[1])
		}
	}
	if len(code) < 15 {
		t.Fatalf("only %d metrics found in the code: the pattern has gone wrong", len(code))
	}
	for name, text := range documents(t) {
		for _, m := range metric.FindAllString(text, -1) {
			if !slices.Contains(code, histogramPart.ReplaceAllString(m, "")) {
				t.Errorf("%s names %s, which is no metric", name, m)
			}
		}
	}
	explained := metric.FindAllString(documents(t)["docs/monitoring.md"], -1)
	for _, m := range code {
		if !slices.Contains(explained, m) {
			t.Errorf("docs/monitoring.md does not explain %s", m)
		}
	}
}

// TestTargetsAreCounted: how many forbidden targets there are is said as it is.
func TestTargetsAreCounted(t *testing.T) {
	text, err := os.ReadFile("../testdata/destinations/forbidden.json")
	if err != nil {
		t.Fatal(err)
	}
	var targets []json.RawMessage
	if err := json.Unmarshal(text, &targets); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{"README.md": "%d targets", "docs/security.md": "[A corpus of %d]"} {
		if want := fmt.Sprintf(says, len(targets)); !strings.Contains(documents(t)[name], want) {
			t.Errorf("%s does not say %q", name, want)
		}
	}
}
