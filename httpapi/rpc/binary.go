package rpc

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/duehook/duehook/httpapi/rpc/duehookv1"
	"github.com/duehook/duehook/internal/kit/jsonio"
)

// Bounds of a message beside its bytes. An empty part takes two bytes in a request, and a hundred times as much in
// memory.
const (
	maxParts = 500_000 // fields and values
	maxDepth = 3 * jsonio.MaxNesting
	// perMessage is as how many parts an element of a list counts that is a message of our own, such as a registration: an
	// empty one takes 500 bytes.
	perMessage = 100
)

var (
	errTooManyParts = fmt.Errorf("the message has more than %d fields and values", maxParts)
	errTooDeep      = fmt.Errorf("the message is nested more than %d levels deep", maxDepth)
)

// binary reads messages in the binary form within these bounds.
type binary struct{}

func (binary) Name() string                  { return "proto" }
func (binary) Marshal(m any) ([]byte, error) { return proto.Marshal(m.(proto.Message)) }

func (binary) Unmarshal(data []byte, m any) error {
	into := m.(proto.Message)
	left := maxParts
	if err := take(data, into.ProtoReflect().Descriptor(), &left, maxDepth); err != nil {
		return err
	}
	return proto.Unmarshal(data, into)
}

// take counts the fields of an encoded message, and of those in it, down from left. Where data is not valid it ends:
// proto.Unmarshal says what is wrong.
func take(data []byte, d protoreflect.MessageDescriptor, left *int, depth int) error {
	if depth == 0 {
		return errTooDeep
	}
	for len(data) > 0 {
		number, kind, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return nil
		}
		value := protowire.ConsumeFieldValue(number, kind, data[tag:])
		if value < 0 {
			return nil
		}
		f := d.Fields().ByNumber(number)
		isMessage := f != nil && f.Message() != nil && kind == protowire.BytesType
		if *left--; isMessage && f.IsList() && f.Message().ParentFile() == pb.File_duehook_proto {
			*left -= perMessage
		}
		if *left < 0 {
			return errTooManyParts
		}
		if isMessage {
			inner, _ := protowire.ConsumeBytes(data[tag:])
			if err := take(inner, f.Message(), left, depth-1); err != nil {
				return err
			}
		}
		data = data[tag+value:]
	}
	return nil
}
