package documents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// decode decodes JSON into a value, which has what can be read if that fails.
func decode(data []byte, into any, strict bool) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if strict {
		decoder.DisallowUnknownFields()
	}
	return decoder.Decode(into)
}

// encode returns the JSON of value with what old has and values of its type do not:
// fields of a newer version, also within other fields, and within members of a list
// that did not change. newer reports whether there is any.
func encode(value any, old []byte) (data []byte, newer bool, err error) {
	if data, err = json.Marshal(value); err != nil {
		return nil, false, fmt.Errorf("encode a document: %w", err)
	}
	if len(old) > 0 {
		data, newer = withUnknown(data, old, reflect.TypeOf(value))
	}
	return data, newer, nil
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
