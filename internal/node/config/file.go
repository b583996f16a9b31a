package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/duehook/duehook/internal/kit/nearest"
)

func fromFile(path string) (source, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("settings file: %w", err)
	}
	found, err := parseYAML(path, content)
	if err != nil {
		return nil, err
	}
	return found, nil
}

// parseYAML reads a flat mapping of setting names to scalars, and to sequences of
// scalars for lists.
func parseYAML(path string, content []byte) (source, error) {
	var doc yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil // an empty file
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: write one document, without a line of ---", path)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: write settings as \"name: value\" lines", path, root.Line)
	}
	byKey := map[string]*setting{}
	keys := make([]string, 0, len(settings))
	for i := range settings {
		byKey[settings[i].key()] = &settings[i]
		keys = append(keys, settings[i].key())
	}
	found := source{}
	var problems []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := fmt.Sprintf("%s:%d", path, key.Line)
		s := byKey[key.Value]
		if s == nil {
			problems = append(problems, fmt.Errorf("%s: unknown setting %s%s", at, key.Value, nearest.Hint(key.Value, keys, "")))
			continue
		}
		if _, twice := found[s.name]; twice {
			problems = append(problems, fmt.Errorf("%s: %s is set twice", at, key.Value))
			continue
		}
		text, err := yamlText(value, s.list)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", at, key.Value, err))
			continue
		}
		found[s.name] = given{text, originFile + at}
	}
	return found, errors.Join(problems...)
}

func yamlText(n *yaml.Node, list bool) (string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return "", errors.New("has no value; leave the line out to get the default")
	case n.Kind == yaml.ScalarNode:
		return n.Value, nil
	case n.Kind == yaml.SequenceNode && list:
		parts := make([]string, len(n.Content))
		for i, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return "", errors.New("write a list of plain values")
			}
			parts[i] = item.Value
		}
		return strings.Join(parts, ","), nil
	case list:
		return "", errors.New("write a list")
	}
	return "", errors.New("write one plain value")
}
