package client

import (
	"context"
	"iter"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Page is a page of a list. NextCursor is empty on the last.
type Page[T any] struct {
	Data       []T    `json:"data"`
	NextCursor string `json:"next_cursor"`
}

// Paging selects a page.
type Paging struct {
	Limit  int    `query:"limit"` // the most items on a page; zero means 100
	Cursor string `query:"cursor"`
}

// page reads one page.
func page[T any](ctx context.Context, c *Client, query any, segments ...string) (Page[T], error) {
	k := read(segments...)
	encode(k.query, query)
	return do[Page[T]](ctx, c, k)
}

// all reads page after page. An error is the last pair.
func all[T any](ctx context.Context, c *Client, query any, segments ...string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		k := read(segments...)
		encode(k.query, query)
		for {
			p, err := do[Page[T]](ctx, c, k)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for i := range p.Data {
				if !yield(p.Data[i], nil) {
					return
				}
			}
			if p.NextCursor == "" {
				return
			}
			k.query.Set("cursor", p.NextCursor)
		}
	}
}

// encode adds the fields of a struct that are not zero, under the names of their tags.
func encode(to url.Values, from any) {
	v := reflect.ValueOf(from)
	for i := range v.NumField() {
		field, name := v.Field(i), v.Type().Field(i).Tag.Get("query")
		switch {
		case name == "":
			encode(to, field.Interface())
		case !field.IsZero():
			to[name] = texts(field)
		}
	}
}

// texts are the values of a parameter.
func texts(v reflect.Value) []string {
	switch value := v.Interface().(type) {
	case time.Time:
		return []string{value.Format(time.RFC3339Nano)}
	case map[string]string:
		pairs := make([]string, 0, len(value))
		for k, text := range value {
			pairs = append(pairs, k+":"+text)
		}
		return pairs
	}
	switch v.Kind() {
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = v.Index(i).String()
		}
		return []string{strings.Join(parts, ",")}
	case reflect.Int:
		return []string{strconv.FormatInt(v.Int(), 10)}
	}
	return []string{v.String()}
}
