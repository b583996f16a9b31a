// Package everyfield makes values that differ in one field, for tests of functions that
// enumerate the fields of a type by hand. A field that is added later is visited as well.
package everyfield

import (
	"fmt"
	"iter"
	"reflect"
)

// Alone yields zero values of T with one field set each, and the path to that field.
// Fields of structs behind pointers, in slices and in maps are visited as well.
func Alone[T any]() iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		for _, at := range paths[T]() {
			v := new(T)
			if set(reflect.ValueOf(v).Elem(), at); !yield(fmt.Sprint(at), v) {
				return
			}
		}
	}
}

// Changed yields values of T with all fields set, and one of them to another value. Filled
// returns the value without a change.
func Changed[T any]() iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		for _, at := range paths[T]() {
			v := Filled[T]()
			if set(reflect.ValueOf(v).Elem(), at); !yield(fmt.Sprint(at), v) {
				return
			}
		}
	}
}

// Filled is a value with all fields set.
func Filled[T any]() *T {
	v := new(T)
	for _, at := range paths[T]() {
		set(reflect.ValueOf(v).Elem(), at)
	}
	return v
}

// path names the fields on the way to a value that has no fields of its own.
type path []string

func paths[T any]() []path { return leaves(reflect.TypeFor[T](), nil) }

func leaves(t reflect.Type, at path) (all []path) {
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			if !f.IsExported() {
				panic(fmt.Sprintf("%v has the unexported field %s, which a test cannot set", t, f.Name))
			}
			all = append(all, leaves(f.Type, append(at[:len(at):len(at)], f.Name))...)
		}
		return all
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return leaves(t.Elem(), at)
	}
	return []path{at}
}

// set gives the value at a path another value.
func set(v reflect.Value, at path) {
	switch v.Kind() {
	case reflect.Struct:
		set(v.FieldByName(at[0]), at[1:])
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		set(v.Elem(), at)
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		set(v.Index(0), at)
	case reflect.Map:
		setMember(v, at)
	default:
		setLeaf(v)
	}
}

// setMember sets a part of the one element of a map, whose elements cannot be changed in place.
func setMember(v reflect.Value, at path) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
	setLeaf(key)
	if old := v.MapIndex(key); old.IsValid() {
		element.Set(old)
	}
	set(element, at)
	v.SetMapIndex(key, element)
}

func setLeaf(v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	case v.CanUint():
		v.SetUint(v.Uint() + 1)
	case v.CanFloat():
		v.SetFloat(v.Float() + 1)
	default:
		panic(fmt.Sprintf("no value of %v is known", v.Type()))
	}
}
