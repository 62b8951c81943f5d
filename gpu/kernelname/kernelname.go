// Package kernelname reads the names of kernels: the function's name inside a mangled one, and whether it is that of a matrix product. It
// decides by words.txt alone and knows nothing of how often, where or by whom a kernel ran.
package kernelname

import (
	"cmp"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ianlancetaylor/demangle"

	"gpubuild/buildenv/lazyregexp"
)

// Words is the table of words by which a kernel's name is that of a matrix product. `gpubuild help kernels` and docs/verdicts.md
// show it: what counts is data, which ages. testdata/kernelnames/names.tsv has the real names that it was made for.
//
//go:embed words.txt
var Words string

// table reads the table: lists of words by what they are for.
var table = sync.OnceValue(func() map[string][]string {
	lists := map[string][]string{}
	for line := range strings.Lines(Words) {
		if list, words, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, "#") {
			lists[list] = append(lists[list], strings.Fields(words)...)
		}
	}
	return lists
})

// Ambiguous returns the word that makes it uncertain whether a kernel that counts by its plain name is a product: the one by which it
// counts and that may mean something else, or one behind it that no list has (gemm_timer). Empty: it is certain, as of the libraries of
// products, whose names have a tile's size (128x64) or are CUTLASS's.
func Ambiguous(plain string) (word string) {
	all := split(subject(plain))
	at := slices.IndexFunc(all, isProduct)
	switch {
	case at < 0:
		for _, w := range all {
			if slices.Contains(table()["maybe"], w) {
				word = w
			}
		}
		return word
	case tile.MatchString(plain) || strings.Contains(plain, "<"):
		return ""
	}
	for _, w := range all[at+1:] {
		if len(w) > 2 && !isProduct(w) && !typeOrSize.MatchString(w) && !slices.Contains(table()["end"], w) {
			return w
		}
	}
	return ""
}

// isProduct reports whether a word is certain to mean a matrix product.
func isProduct(word string) bool {
	return slices.Contains(table()["word"], word) ||
		slices.ContainsFunc(table()["part"], func(part string) bool { return strings.HasSuffix(word, part) })
}

// IsProduct reports whether a kernel's plain name is that of a matrix product. An unknown name makes OtherKernels, never NotUsed.
func IsProduct(plain string) bool {
	for _, mangled := range []string{"_Z", "_R", staticPrefix} {
		if strings.HasPrefix(plain, mangled) {
			return false // which of its words is the function's is not known
		}
	}
	function := subject(plain)
	lower := strings.ToLower(function)
	if len(function) > longestName || !slices.ContainsFunc(table()["hint"],
		func(part string) bool { return strings.Contains(lower, part) }) {
		return false // most names
	}
	in := func(list string) func(string) bool {
		return func(word string) bool { return slices.Contains(table()[list], word) }
	}
	all := split(function)
	at := slices.IndexFunc(all, func(w string) bool {
		return isProduct(w) || in("maybe")(w)
	})
	if at < 0 || slices.ContainsFunc(all, in("never")) || slices.ContainsFunc(split(plain), in("scope")) ||
		slices.ContainsFunc(all[:at], in("for")) || in("first")(all[0]) {
		return false
	}
	end := len(all) - 1
	for end > at && (in("end")(all[end]) || typeOrSize.MatchString(all[end])) {
		end--
	}
	manner := end > at+1 && in("manner")(all[end-1]) // gemv_warp_reduce is a product whose warps reduce
	return end == at || manner || !in("last")(all[end])
}

const longestName = 4 << 10

var (
	typeOrSize = lazyregexp.New(`^([a-z]?\d.*|[a-z])$`)
	tile       = lazyregexp.New(`\d+x\d+`)
	wordsIn    = lazyregexp.New(`[A-Z]?[a-z]+|[A-Z]+|\d+`)
	capitals   = lazyregexp.New(`([A-Z])([A-Z][a-z])`) // the word after one in capitals: GEMMKernel
)

// split returns the words of a name in lower case. Those that the table joins are one word: mul_mat, MatrixMultiply.
func split(name string) []string {
	var out []string
	for _, w := range wordsIn.FindAllString(capitals.ReplaceAllString(name, "${1}_$2"), -1) {
		w = strings.ToLower(w)
		if last := len(out) - 1; last >= 0 && slices.Contains(table()["join"], out[last]+"+"+w) {
			out[last] += w
			continue
		}
		out = append(out, w)
	}
	return out
}

// subject is the part of a plain name that says what the function does: its last component, or the one before where that is a mere
// "kernel"; and of CUTLASS's own launchers the operator that they were made for.
func subject(plain string) string {
	if _, operator, ok := strings.Cut(plain, "<"); ok {
		return subject(strings.TrimSuffix(operator, ">"))
	}
	parts := strings.Split(plain, "::")
	for len(parts) > 1 && strings.EqualFold(parts[len(parts)-1], "kernel") {
		parts = parts[:len(parts)-1]
	}
	return parts[len(parts)-1]
}

// Demangle returns the qualified name of a function, without template arguments and parameters, from a name as the driver has it
// (Itanium-mangled) or as tools print it: "_Z6matmulPKfS0_Pfj" is "matmul", "void gemv2T_kernel_val<int, float>(…)" is
// "gemv2T_kernel_val". CUTLASS launches every kernel by one function, so of that the operator is part of the name:
// "cutlass::Kernel2<cutlass_80_simt_sgemm_64x64>". A name that is not understood is answered as it is.
func Demangle(name string) string {
	if function := withoutFile(name); function != name {
		return Demangle(function)
	}
	read := name
	if strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R") {
		var err error
		if read, err = demangle.ToString(name, demangle.NoParams, demangle.NoClones); err != nil || read == "" { // "_RC0" names a crate without a name
			return name
		}
	}
	if !strings.ContainsAny(read, "<( [") && !strings.HasPrefix(read, "_INTERNAL_") {
		return read
	}
	parts, operator := printed(read)
	plain, launchers := strings.Join(parts, "::"), []string{"Kernel", "Kernel2", "device_kernel"}
	if operator != "" && strings.HasPrefix(plain, "cutlass") && slices.Contains(launchers, parts[len(parts)-1]) {
		plain += "<" + operator + ">"
	}
	return cmp.Or(plain, name)
}

// withoutFile is the function's own name in that of a static function, which begins with its file: the length of a name, and the name.
func withoutFile(name string) string {
	if file, rest, ok := strings.Cut(strings.TrimPrefix(name, staticPrefix), "_"); ok && strings.HasPrefix(name, staticPrefix) {
		if n, err := strconv.Atoi(file); err == nil && 0 < n && n < len(rest)-1 && rest[n] == '_' {
			return rest[n+1:]
		}
	}
	return name
}

// staticPrefix begins the name that nvcc gives a static function of a file.
const staticPrefix = "__nv_static_"

// printed takes a demangled name apart: the components of the function's name, and the first template argument of the last.
func printed(name string) (parts []string, operator string) {
	name = strings.NewReplacer("(anonymous namespace)", unnamed, "<unnamed>", unnamed, "[abi:", "<abi:", "]", ">").Replace(name)
	var b strings.Builder
	depth, begin := 0, 0
	for i, c := range name {
		switch {
		case c == '<':
			if depth++; depth == 1 {
				begin = i + 1
			}
		case c == '>' && depth > 0, c == ',' && depth == 1 && begin > 0:
			if depth == 1 && begin > 0 {
				operator, begin = name[begin:i], 0
			}
			if c == '>' {
				depth--
			}
		case depth > 0:
		case c == '(':
			return components(b.String()), operatorName(operator)
		case c == ' ':
			b.Reset() // what came before is the type of the answer
			operator = ""
		default:
			if c == ':' {
				operator = ""
			}
			b.WriteRune(c)
		}
	}
	return components(b.String()), operatorName(operator)
}

const unnamed = "{unnamed}"

func components(name string) []string {
	parts := strings.Split(strings.Trim(name, ":"), "::")
	for i, p := range parts {
		if strings.HasPrefix(p, "_INTERNAL_") { // the namespace of a file
			parts[i] = unnamed
		}
	}
	return parts
}

func operatorName(argument string) string {
	argument = strings.TrimSpace(argument)
	if argument == "" || '0' <= argument[0] && argument[0] <= '9' {
		return ""
	}
	parts, _ := printed(argument)
	return strings.Join(parts, "::")
}

// Full is a kernel's demangled name with its template arguments and parameters, or its name as it is.
func Full(name string) string {
	name = withoutFile(name)
	if full, err := demangle.ToString(name); err == nil && full != "" {
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
