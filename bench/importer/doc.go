// Package importer tests imports with what the originals' own code writes. Its tests are in the module of
// the benchmarks, because of their dependencies.
package importer
