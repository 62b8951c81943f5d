package kernelname

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Full is a kernel's demangled name with its template arguments and parameters, or its name as it is.
func Full(name string) string {
	name = withoutFile(name)
	if full, err := demangle.ToString(name); err == nil {
		return strings.TrimPrefix(full, "void ")
	}
	return name
}

// Same is what the names of kernels have in common that count as one: the static functions of two files, and those of anonymous
// namespaces, whose mangled names have a hash of the file's path and text.
func Same(name string) string {
	if name = withoutFile(name); strings.Contains(name, "_GLOBAL__N_") {
		return Full(name)
	}
	return name
}
