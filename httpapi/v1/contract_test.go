package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/duehook/duehook/httpapi"
	"github.com/duehook/duehook/internal/job"
)

// contract holds answers against the OpenAPI document.
type contract struct {
	doc        map[string]any
	operations []operation

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
}

type operation struct {
	method, path string
	pattern      *regexp.Regexp
	at           string // JSON pointer to the operation
	row          *route // of the table
}

const documentURL = "https://duehook.test/openapi.json"

// theContract is the document before it is served, which forbids unknown members in answers.
var theContract = sync.OnceValue(func() *contract {
	source, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		panic(err)
	}
	var document map[string]any
	if err := yaml.Unmarshal(source, &document); err != nil {
		panic(err)
	}
	data, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		panic(err)
	}
	c := &contract{doc: parsed.(map[string]any), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(documentURL, parsed); err != nil {
		panic(err)
	}
	for path, item := range object(c.doc["paths"]) {
		for method := range object(item) {
			if method == "parameters" {
				continue
			}
			pattern := regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllLiteralString(regexp.QuoteMeta(path), `[^/]+`)
			c.operations = append(c.operations, operation{
				method:  strings.ToUpper(method),
				path:    path,
				pattern: regexp.MustCompile("^" + pattern + "$"),
				at:      "/paths/" + httpapi.EscapePointer(path) + "/" + method,
				row:     find(strings.ToUpper(method), path),
			})
		}
	}
	slices.SortFunc(c.operations, func(a, b operation) int {
		return strings.Compare(a.path+" "+a.method, b.path+" "+b.method)
	})
	return c
})

func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

// at follows a JSON pointer, through references.
func (c *contract) at(pointer string) (string, any) {
	var v any = c.doc
	at := ""
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		at += "/" + part
		v = object(v)[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
		if ref, ok := object(v)["$ref"].(string); ok {
			at, v = c.at(strings.TrimPrefix(ref, "#"))
		}
	}
	return at, v
}

func (c *contract) schema(pointer string) (*jsonschema.Schema, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.schemas[pointer]; ok {
		return s, nil
	}
	s, err := c.compiler.Compile(documentURL + "#" + pointer)
	c.schemas[pointer] = s
	return s, err
}

func (c *contract) validate(pointer string, data []byte) error {
	s, err := c.schema(pointer)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// find is the operation that a request is for.
func (c *contract) find(r *http.Request) (operation, bool) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, op := range c.operations {
		if op.method == method && op.pattern.MatchString(r.URL.EscapedPath()) {
			return op, true
		}
	}
	return operation{}, false
}

// outcome is one documented answer: an operation, a status, and for errors a code.
type outcome struct {
	operation string
	status    int
	code      string
}

func (o outcome) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %d %s", o.operation, o.status, o.code))
}

// check holds an answer, and the request if it was accepted, against the
// document, and says which of the documented outcomes it is.
func (c *contract) check(r *http.Request, sent []byte, got *httptest.ResponseRecorder) (outcome, error) {
	op, known := c.find(r)
	if !known {
		return outcome{}, c.checkUnrouted(r, got)
	}
	o := outcome{operation: op.method + " " + op.path, status: got.Code}
	at, response := c.at(op.at + "/responses/" + strconv.Itoa(got.Code))
	if response == nil {
		return o, fmt.Errorf("%s: status %d is not documented; the answer was %s", o.operation, got.Code, got.Body)
	}
	if err := c.checkHeaders(at, object(response), got.Header()); err != nil {
		return o, fmt.Errorf("%v: %w", o, err)
	}
	if got.Code == http.StatusNotModified && got.Body.Len() == 0 {
		return o, nil
	}
	mediaType, _, err := mime.ParseMediaType(got.Header().Get("Content-Type"))
	if err != nil {
		return o, fmt.Errorf("%v: content type: %w", o, err)
	}
	if object(object(response)["content"])[mediaType] == nil {
		return o, fmt.Errorf("%v: content type %s is not documented", o, mediaType)
	}
	if strings.HasSuffix(mediaType, "json") {
		if err := c.validate(at+"/content/"+httpapi.EscapePointer(mediaType)+"/schema", got.Body.Bytes()); err != nil {
			return o, fmt.Errorf("%v: the answer breaks its schema: %w\n%s", o, err, got.Body)
		}
	}
	if mediaType == httpapi.MIMEProblem {
		o.code = decodeProblem(got).Code
	}
	if err := op.checkShape(got); err != nil {
		return o, fmt.Errorf("%v: %w\n%.2000s", o, err, got.Body)
	}
	return o, c.checkRequest(op, sent, got.Code)
}

// checkRequest wants what the API accepted to be what the document allows.
func (c *contract) checkRequest(op operation, sent []byte, status int) error {
	if status >= 300 || len(sent) == 0 || op.method == http.MethodDelete {
		return nil
	}
	at, _ := c.at(op.at + "/requestBody")
	if op.path == "/v1/jobs/batch" {
		return nil // holds bad jobs beside good ones
	}
	if err := c.validate(at+"/content/application~1json/schema", sent); err != nil {
		return fmt.Errorf("%s %s: accepted what the document does not allow: %w", op.method, op.path, err)
	}
	return nil
}

func (c *contract) checkHeaders(at string, response map[string]any, got http.Header) error {
	for name, header := range object(response["headers"]) {
		value := got.Get(name)
		if value == "" {
			if object(header)["required"] == true {
				return fmt.Errorf("header %s is missing", name)
			}
			continue
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if err := c.validate(at+"/headers/"+name+"/schema", quoted); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	if got.Get("X-Request-Id") == "" {
		return fmt.Errorf("header X-Request-Id is missing")
	}
	return nil
}

// checkUnrouted is for requests that the document does not know.
func (c *contract) checkUnrouted(r *http.Request, got *httptest.ResponseRecorder) error {
	switch {
	case r.Method == http.MethodOptions && got.Code == http.StatusNoContent:
		return nil
	case got.Code != http.StatusNotFound && got.Code != http.StatusMethodNotAllowed && got.Code != http.StatusUnprocessableEntity:
		return fmt.Errorf("%s %s is not in the document, but was answered with %d", r.Method, r.URL, got.Code)
	}
	return c.validate("/components/schemas/Problem", got.Body.Bytes())
}

// documented is every outcome that the document promises.
func (c *contract) documented() []outcome {
	var all []outcome
	for _, op := range c.operations {
		_, responses := c.at(op.at + "/responses")
		for status := range object(responses) {
			code, err := strconv.Atoi(status)
			if err != nil {
				panic(err)
			}
			o := outcome{operation: op.method + " " + op.path, status: code}
			_, response := c.at(op.at + "/responses/" + status)
			problem := object(object(response)["content"])[httpapi.MIMEProblem]
			if problem == nil {
				all = append(all, o)
				continue
			}
			parts := object(object(problem)["schema"])["allOf"].([]any)
			for _, code := range object(object(object(parts[1])["properties"])["code"])["enum"].([]any) {
				o.code = code.(string)
				all = append(all, o)
			}
		}
	}
	return all
}

func decodeProblem(got *httptest.ResponseRecorder) httpapi.Problem {
	var p httpapi.Problem
	if err := json.Unmarshal(got.Body.Bytes(), &p); err != nil {
		return httpapi.Problem{Detail: fmt.Sprintf("no JSON: %v: %s", err, got.Body)}
	}
	return p
}

func TestDocumentHasEveryRoute(t *testing.T) {
	c := theContract()
	inDocument, inTable, inServer := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, op := range c.operations {
		inDocument[op.method+" "+op.path] = true
	}
	for _, rt := range allRoutes {
		inTable[rt.method+" "+rt.path] = true
	}
	for _, r := range newAPI(t).server.Routes() {
		inServer[r.Method+" "+r.Path] = true
	}
	if !maps.Equal(inDocument, inTable) {
		t.Errorf("the document has\n%v\nand the table\n%v", slices.Sorted(maps.Keys(inDocument)), slices.Sorted(maps.Keys(inTable)))
	}
	if !maps.Equal(inServer, inTable) {
		t.Errorf("the server has\n%v\nand the table\n%v", slices.Sorted(maps.Keys(inServer)), slices.Sorted(maps.Keys(inTable)))
	}
}

// The fields that the decoder knows are those of the schemas.
func TestDocumentHasEveryField(t *testing.T) {
	c := theContract()
	same := func(schema string, fields []string) {
		_, properties := c.at("/components/schemas/" + schema + "/properties")
		documented := slices.Sorted(maps.Keys(object(properties)))
		slices.Sort(fields)
		if !slices.Equal(documented, fields) {
			t.Errorf("%s: the document has %v, the decoder %v", schema, documented, fields)
		}
	}
	same("Registration", slices.Collect(draftFields.Names()))
	same("Retry", slices.Collect(retryFields.Names()))
	same("Expect", slices.Collect(expectFields.Names()))
	same("KeyDraft", slices.Collect(keyFields.Names()))
	same("SecretDraft", slices.Collect(secretFields.Names()))
	same("Rotation", slices.Collect(rotationFields.Names()))
	same("OperationDraft", slices.Collect(operationFields.Names()))
	same("OperationFilter", slices.Collect(filterFields.Names()))
	same("Batch", slices.Collect(batchFields.Names()))
}

func TestDocumentHasEveryMethod(t *testing.T) {
	_, enum := theContract().at("/components/schemas/Method/enum")
	want := []any{}
	for _, m := range job.Methods {
		want = append(want, m)
	}
	if diff := cmp.Diff(append(want, nil), enum); diff != "" {
		t.Errorf("methods (-domain +document):\n%s", diff)
	}
}

func TestDocumentHasEveryCode(t *testing.T) {
	_, enum := theContract().at("/components/schemas/Problem/properties/code/enum")
	var documented []string
	for _, code := range enum.([]any) {
		documented = append(documented, code.(string))
	}
	var known []string
	for _, code := range httpapi.Codes() {
		known = append(known, code.Name)
	}
	slices.Sort(documented)
	slices.Sort(known)
	if !slices.Equal(documented, known) {
		t.Errorf("the document has the codes %v, the API %v", documented, known)
	}
}

// Every schema compiles, every reference leads somewhere, every example obeys.
func TestDocumentIsSound(t *testing.T) {
	c := theContract()
	operationIDs := map[string]bool{}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case []any:
			for i, e := range v {
				walk(at+"/"+strconv.Itoa(i), e)
			}
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				if _, target := c.at(strings.TrimPrefix(ref, "#")); target == nil {
					t.Errorf("%s: the reference %s leads nowhere", at, ref)
				}
			}
			if id, ok := v["operationId"].(string); ok {
				if operationIDs[id] {
					t.Errorf("%s: the operationId %s is taken", at, id)
				}
				operationIDs[id] = true
			}
			if _, ok := v["schema"]; ok {
				if _, err := c.schema(at + "/schema"); err != nil {
					t.Errorf("%s: %v", at, err)
				}
				for name, example := range object(v["examples"]) {
					c.checkExample(t, at+"/schema", name, object(example)["value"])
				}
			}
			if examples, ok := v["examples"].([]any); ok {
				for i, example := range examples {
					c.checkExample(t, at, strconv.Itoa(i), example)
				}
			}
			for name, e := range v {
				if e == nil && !slices.Contains([]string{"const", "default", "value"}, name) && !strings.Contains(at, "/examples/") {
					t.Errorf("%s: %q has no value; is a comma in a text without quotes?", at, name)
				}
				walk(at+"/"+httpapi.EscapePointer(name), e)
			}
		}
	}
	walk("", c.doc)
}

func (c *contract) checkExample(t *testing.T, schema, name string, example any) {
	t.Helper()
	data, err := json.Marshal(example)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.validate(schema, data); err != nil {
		t.Errorf("%s: example %s: %v", schema, name, err)
	}
}
