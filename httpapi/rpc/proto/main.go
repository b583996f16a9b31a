// Command proto writes the Go code of httpapi/rpc/duehookv1/duehook.proto beside it. `go -C httpapi/rpc/proto run . ../duehookv1` runs it
// with pinned versions.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const file = "duehook.proto"

func main() {
	if err := generate(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func generate(dir string) error {
	source, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return err
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), file)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{file}, Parameter: new("paths=source_relative")}
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i))
		}
		request.ProtoFile = append(request.ProtoFile, toProto(f))
	}
	add(files[0])
	plugin, err := protogen.Options{}.New(request)
	if err != nil {
		return err
	}
	for _, f := range plugin.Files {
		if f.Generate {
			internal_gengo.GenerateFile(plugin, f)
		}
	}
	response := plugin.Response()
	if response.Error != nil {
		return fmt.Errorf("generate: %s", response.GetError())
	}
	for _, out := range response.File {
		// A test compares the sum with the source.
		text := fmt.Sprintf("%s\n// Source: sha256 %x\n", out.GetContent(), sha256.Sum256(source))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(out.GetName())), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func toProto(f protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	return protodesc.ToFileDescriptorProto(f)
}
