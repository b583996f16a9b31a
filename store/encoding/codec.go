package encoding

import (
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// codec writes values or reads them: one description of a map serves both. After an error
// it reads nothing.
type codec struct {
	b       []byte
	reading bool
	head    bool // the body is passed over
	err     error
	object
}

// object is the map at hand.
type object struct {
	written uint32 // fields
	left    uint32 // fields whose names were not read
	name    []byte // of the next field
	named   bool   // name was read, its value was not
}

// smallMap is the most fields of a map whose header is one byte.
const smallMap = 15

// fields writes or reads a map. each describes all of its fields in the order in which they
// are written, so that one call reads a whole map.
func (c *codec) fields(each func()) {
	outer := c.object
	if c.reading {
		c.object = object{left: read(c, msgp.ReadMapHeaderBytes)}
		for c.next() {
			left := c.left
			if each(); c.named && c.left == left { // a newer version wrote the field
				read(c, skip)
				c.named = false
			}
		}
	} else {
		at := len(c.b)
		c.object, c.b = object{}, msgp.AppendMapHeader(c.b, 0)
		each()
		if c.written > smallMap {
			c.b = slices.Insert(c.b, at, msgp.AppendMapHeader(nil, c.written)[1:]...)
		}
		msgp.AppendMapHeader(c.b[:at], c.written)
	}
	c.object = outer
}

// next reads the name of the next field. It returns false after the last one.
func (c *codec) next() bool {
	if !c.named && c.left > 0 {
		c.left--
		c.name = read(c, msgp.ReadStringZC)
		c.named = true
	}
	return c.named && c.err == nil
}

// field begins a field, and reports whether its value follows: if it is present, or if it is
// the next one to read.
func (c *codec) field(name string, present bool) bool {
	if !c.reading {
		if present {
			c.written++
			c.b = msgp.AppendString(c.b, name)
		}
		return present
	}
	if !c.next() || string(c.name) != name {
		return false
	}
	c.named = false
	return true
}

// read reads a value with a function of the library; the zero value after an error.
func read[T any](c *codec, of func([]byte) (T, []byte, error)) (v T) {
	if c.err == nil {
		v, c.b, c.err = of(c.b)
	}
	return v
}

func skip(b []byte) (struct{}, []byte, error) {
	rest, err := msgp.Skip(b)
	return struct{}{}, rest, err
}

// text is a field that is absent if it is empty, as number and flag are.
func text[T ~string](c *codec, name string, v *T) {
	if c.field(name, *v != "") {
		s := string(*v)
		c.plain(&s)
		*v = T(s)
	}
}

func (c *codec) plain(v *string) {
	if c.reading {
		*v = read(c, msgp.ReadStringBytes)
	} else {
		c.b = msgp.AppendString(c.b, *v)
	}
}

func number[T ~int | ~int8 | ~int64 | ~uint8](c *codec, name string, v *T) {
	if c.field(name, *v != 0) {
		integer(c, v)
	}
}

// integer is a number in as few bytes as possible.
func integer[T ~int | ~int8 | ~int64 | ~uint8](c *codec, v *T) {
	switch n := int64(*v); {
	case c.reading:
		*v = T(read(c, msgp.ReadInt64Bytes))
	case n > 0:
		c.b = msgp.AppendUint64(c.b, uint64(n))
	default:
		c.b = msgp.AppendInt64(c.b, n)
	}
}

func version[T ~uint64](c *codec, name string, v *T) {
	switch {
	case !c.field(name, *v != 0):
	case c.reading:
		*v = T(read(c, msgp.ReadUint64Bytes))
	default:
		c.b = msgp.AppendUint64(c.b, uint64(*v))
	}
}

func flag(c *codec, name string, v *bool) {
	switch {
	case !c.field(name, *v):
	case c.reading:
		*v = read(c, msgp.ReadBoolBytes)
	default:
		c.b = msgp.AppendBool(c.b, *v)
	}
}

func content(c *codec, name string, v *[]byte) {
	switch {
	case !c.field(name, len(*v) > 0):
	case c.reading:
		*v = read(c, func(b []byte) ([]byte, []byte, error) { return msgp.ReadBytesBytes(b, nil) })
	default:
		c.b = msgp.AppendBytes(c.b, *v)
	}
}

// list is a field that is absent without elements.
func list[T any](c *codec, name string, v *[]T, element func(*T)) {
	switch {
	case !c.field(name, len(*v) > 0):
	case c.reading:
		for n := read(c, msgp.ReadArrayHeaderBytes); n > 0 && c.err == nil; n-- {
			*v = append(*v, *new(T))
			element(&(*v)[len(*v)-1])
		}
	default:
		c.b = msgp.AppendArrayHeader(c.b, uint32(len(*v)))
		for i := range *v {
			element(&(*v)[i])
		}
	}
}

// inner is a field that is a map.
func (c *codec) inner(name string, present bool, each func()) {
	if c.field(name, present) {
		c.fields(each)
	}
}

// part is a field that is a map, absent if it is nil.
func part[T any](c *codec, name string, v **T, each func(*T)) {
	if c.field(name, *v != nil) {
		if *v == nil {
			*v = new(T)
		}
		c.fields(func() { each(*v) })
	}
}
