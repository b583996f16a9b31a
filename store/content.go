package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// ErrNewer says that a document cannot be read by this version: a newer one wrote it,
// or somebody else. It must not be written over, and what follows from it stays as it is.
var ErrNewer = errors.New("what is stored cannot be read by this version of duehook")

// Exact is what is only understood as a whole: with a field left out it would mean more
// than was meant, such as an operation without a part of its filter. Others may have
// fields that only a newer version knows.
type Exact interface{ Exact() }

// Decode decodes a content that is JSON. An error wraps ErrNewer; into has what can
// be read of it then.
func (d *Document) Decode(into any) error {
	decoder := json.NewDecoder(bytes.NewReader(d.Data))
	if _, exact := into.(Exact); exact {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%w: the %s %s: %w", ErrNewer, d.Kind, d.Name, err)
	}
	return nil
}

// Encode makes value the content, and keeps what d holds that values of its type do
// not: fields of a newer version, also within other fields, and within the members of
// a list that stay as they were. more reports whether there is any.
func (d Document) Encode(value any) (_ Document, more bool, _ error) {
	data, err := json.Marshal(value)
	if err != nil {
		return d, false, fmt.Errorf("encode the %s %s: %w", d.Kind, d.Name, err)
	}
	if len(d.Data) > 0 {
		data, more = withUnknown(data, d.Data, reflect.TypeOf(value))
	}
	d.Data = data
	return d, more, nil
}

// withUnknown is fresh, the JSON of a t, with what old holds beyond a t; false: nothing.
func withUnknown(fresh, old json.RawMessage, t reflect.Type) (json.RawMessage, bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Implements(reflect.TypeFor[json.Marshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()):
		return fresh, false
	case t.Kind() == reflect.Struct:
		return mergeObjects(fresh, old, fieldsOf(t), nil)
	case t.Kind() == reflect.Map:
		return mergeObjects(fresh, old, nil, t.Elem())
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return mergeLists(fresh, old, t.Elem())
	}
	return fresh, false
}

// mergeObjects merges objects with the known fields, or if all are known those of a map.
func mergeObjects(fresh, old json.RawMessage, known map[string]reflect.Type, all reflect.Type) (json.RawMessage, bool) {
	var now, before map[string]json.RawMessage
	if json.Unmarshal(fresh, &now) != nil || json.Unmarshal(old, &before) != nil || now == nil {
		return fresh, false
	}
	more := false
	for name, value := range before {
		t := all
		if t == nil {
			t = known[strings.ToLower(name)]
		}
		if t == nil {
			now[name], more = value, true
		} else if is, there := now[name]; there {
			merged, some := withUnknown(is, value, t)
			now[name], more = merged, more || some
		}
	}
	if !more {
		return fresh, false
	}
	return encoded(now), true
}

// mergeLists takes members of old that stay as they were, as far as a t can tell.
func mergeLists(fresh, old json.RawMessage, t reflect.Type) (json.RawMessage, bool) {
	var now, before []json.RawMessage
	if json.Unmarshal(fresh, &now) != nil || json.Unmarshal(old, &before) != nil {
		return fresh, false
	}
	more := false
	for _, value := range before {
		member := reflect.New(t).Interface()
		if json.Unmarshal(value, member) != nil {
			continue
		}
		same := encoded(member)
		for i := range now {
			if bytes.Equal(now[i], same) {
				merged, some := withUnknown(now[i], value, t)
				now[i], more = merged, more || some
				break
			}
		}
	}
	if !more {
		return fresh, false
	}
	return encoded(now), true
}

// encoded is the JSON of what was JSON before.
func encoded(v any) json.RawMessage {
	data, _ := json.Marshal(v) // it always has a form
	return data
}

// fieldsOf are the fields of a struct by the names that its JSON has for them, in
// lower case: decoding does not tell cases apart.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" || !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields[strings.ToLower(name)] = f.Type
	}
	return fields
}
