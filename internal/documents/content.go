package documents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/duehook/duehook/store"
)

// decode decodes JSON into a value. After an error, the value has the readable fields.
func decode(data []byte, into any, strict bool) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if strict {
		decoder.DisallowUnknownFields()
	}
	return decoder.Decode(into)
}

// encode returns the JSON of *value with what old has and its type does not: fields of a newer
// version, also within other fields, and within members of a list that did not change.
// newer reports whether there is any. The error wraps store.ErrNewer if old is no JSON of the type.
func encode(value any, old []byte) (data []byte, newer bool, err error) {
	if data, err = json.Marshal(value); err != nil {
		return nil, false, fmt.Errorf("encode a document: %w", err)
	}
	if len(old) == 0 {
		return data, false, nil
	}
	was := reflect.New(reflect.TypeOf(value).Elem()).Interface()
	if err := json.Unmarshal(old, was); err != nil {
		return nil, false, fmt.Errorf("%w: what is replaced cannot be read: %w", store.ErrNewer, err)
	}
	data, newer = withUnknown(data, old, encoded(was))
	return data, newer, nil
}

// withUnknown returns fresh with what old has and known does not, which is the part of old
// that this version can read; false: nothing.
func withUnknown(fresh, old, known json.RawMessage) (json.RawMessage, bool) {
	if bytes.Equal(old, known) {
		return fresh, false
	}
	if merged, more := mergeObjects(fresh, old, known); more {
		return merged, true
	}
	return mergeLists(fresh, old, known)
}

func mergeObjects(fresh, old, known json.RawMessage) (json.RawMessage, bool) {
	var now, before, read map[string]json.RawMessage
	if json.Unmarshal(fresh, &now) != nil || json.Unmarshal(old, &before) != nil || json.Unmarshal(known, &read) != nil || now == nil {
		return fresh, false
	}
	more := false
	for name, value := range before {
		is, there := now[name]
		was, understood := read[name]
		if !understood {
			was = json.RawMessage("null") // or it is zero, and left out
		}
		switch {
		case there:
			merged, some := withUnknown(is, value, was)
			now[name], more = merged, more || some
		case !understood:
			now[name], more = value, true
		}
	}
	return encoded(now), more
}

// mergeLists merges members of old that stay as they were, as far as this version can tell.
func mergeLists(fresh, old, known json.RawMessage) (json.RawMessage, bool) {
	var now, before, read []json.RawMessage
	if json.Unmarshal(fresh, &now) != nil || json.Unmarshal(old, &before) != nil || json.Unmarshal(known, &read) != nil || len(read) != len(before) {
		return fresh, false
	}
	more := false
	for i, was := range read {
		for j := range now {
			if bytes.Equal(now[j], was) {
				merged, some := withUnknown(now[j], before[i], was)
				now[j], more = merged, more || some
				break
			}
		}
	}
	return encoded(now), more
}

// encoded encodes a value that was decoded from JSON.
func encoded(v any) json.RawMessage {
	data, _ := json.Marshal(v) // it always has a form
	return data
}
