package features

import (
	"slices"
	"strings"

	"gpubuild/features/catalog"
	"gpubuild/features/manifest"
)

// Traces are the names in a program's memory that show that it uses a backend; of a bare gpu, any backend. Where a crate is off, its code
// for the CPU may name plugins. functions are names of whole functions, calls begin those which count where a binding is on by the request.
func Traces(backend string, off bool) (all, functions, calls []string) {
	for _, t := range catalog.Default().Traces {
		if backend != t.Backend && backend != manifest.AnyGPU {
			continue
		}
		names := t.Libraries
		if !off {
			names = slices.Concat(names, t.Plugins)
		}
		for _, name := range names {
			if name == "cuda" { // not libcudacxx, and on Windows it is nvcuda.dll
				all = append(all, "libcuda.so")
				continue
			}
			all = append(all, "lib"+name, name+"64_", name+".dll")
		}
		all, functions, calls = append(all, t.Names...), append(functions, t.Functions...), append(calls, t.Calls...)
	}
	return all, functions, calls
}

// LinksFor reports whether a build script has a library of a backend linked, by what it prints for cargo: dylib=cudart. A bare gpu may mean any.
func LinksFor(libs []string, backend string) bool {
	return slices.ContainsFunc(libs, func(lib string) bool {
		_, name, kind := strings.Cut(lib, "=")
		if !kind {
			name = lib
		}
		return slices.ContainsFunc(catalog.Default().Traces, func(t catalog.Trace) bool {
			return (t.Backend == backend || backend == manifest.AnyGPU) &&
				slices.ContainsFunc(t.Libraries, func(begin string) bool { return strings.HasPrefix(name, begin) })
		})
	})
}
