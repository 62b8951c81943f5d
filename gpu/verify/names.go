package verify

import (
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv/lazyregexp"
)

// IsProduct says whether a kernel's name is that of a matrix product. It is decided by the plain function name alone: template arguments
// and parameters name what a kernel is made of, not what it does. A name says "product" when one of its words is a product, no word is a
// convolution or attention, and the product is what the function does: "transpose_for_gemm" and "mul_mat_q_stream_k_fixup" do something
// else, before or after one.
//
// Names age: an unknown one makes OtherKernels, never NotUsed. testdata/kernelnames/names.tsv has the real ones that this was made for.
func IsProduct(name string) bool { return isProduct(Plain(name)) }

var (
	product = lazyregexp.New(`gemm|gemv|mat(rix)?mul|mulmat|nvjet|matvec|^(mm[vq]|mmv[qf]|wgmma|[wc]mma|(add|baddb|b|sp)?mm)$`)
	// Whatever else such a kernel is called, it does no work.
	sham = words("dummy fake mock noop nop stub empty placeholder warmup")
	// Words of work that contains products and is none: whoever wants it names it.
	notProduct = words("fprop dgrad wgrad bprop conv convolve convolution convolutional winograd cudnn attn attention flash fmha mha sdpa")
	// A product behind one of these is what the function works for.
	prepositions = words("for after before from to into of without no pre post reduce kreduce")
	// Functions begin with what they do.
	verbs = words(
		"transpose permute quantize quantise quant convert cast copy cpy memcpy memset fill zero clear init initialize set get " +
			"count prepare preprocess postprocess pad pack unpack repack swizzle shuffle reorder gather scatter sort reduce " +
			"sum add scale elementwise pointwise check verify compare validate finalize finish combine merge expand " +
			"load store generate build make setup map dequant dequantize",
	)
	// They end with what they make.
	nouns = words("init initializer initialize initialization random fixup fix reduce reduction reducer copy cast fill memset transpose " +
		"setup prologue offsets offset sizes size args arguments pointers ptrs metadata scales scaling quantize " +
		"quantization pack repack pad padding permute check finalize combine merge postprocess preprocess inputs input outputs " +
		"output indices info count zero clear convert conversion barrier sync workspace helper map problem problems strides verify " +
		"checksum alloc allocate prep prepare back")
	// What follows says of what type or size.
	trailing = lazyregexp.New(
		`^([a-z]?\d.*|[a-z]|kernels?|kern|cuda|gpu|impl|fp|bf|half|float|double|int|uint|nn|nt|tn|tt|val|fwd|inline|` +
			`device|global)$`,
	)
	// Inductor's templates (torch/_inductor, TritonTemplate): mm, addmm, bmm.
	templateProduct = lazyregexp.New(`(^|_)(add|b|int_|scaled_)?mm(_|$)`)
	wordsIn         = lazyregexp.New(`[A-Z]?[a-z]+|[A-Z]+|\d+`)
)

func words(list string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(list) {
		out[w] = true
	}
	return out
}

func isProduct(plain string) bool {
	for _, mangled := range []string{"_Z", "_R", staticPrefix} {
		if strings.HasPrefix(plain, mangled) {
			return false // which of its words is the function's is not known
		}
	}
	function := subject(plain)
	lower := strings.ToLower(function)
	if !slices.ContainsFunc([]string{"gem", "mm", "mul", "mat", "nvjet"}, func(part string) bool { return strings.Contains(lower, part) }) {
		return false // most names, and some of kilobytes
	}
	if strings.HasPrefix(function, "triton_") { // Inductor names what it fused, and how: only a template is a product
		rest, template := strings.CutPrefix(function, "triton_tem_")
		return (template || strings.HasPrefix(function, "triton_mm") || strings.HasPrefix(function, "triton_bmm")) &&
			templateProduct.MatchString(rest) && !strings.Contains(rest, "conv") && !strings.Contains(rest, "attention")
	}
	if strings.Contains(lower, "im2col") || slices.ContainsFunc(split(plain), func(w string) bool { return notProduct[w] }) {
		return false
	}
	all := split(function)
	at := slices.IndexFunc(all, product.MatchString)
	if at < 0 || slices.ContainsFunc(all, func(w string) bool { return sham[w] }) {
		return false
	}
	for i, w := range all[:at] {
		if prepositions[w] || w == "implicit" || i == 0 && verbs[w] && !(w == "dequantize" || w == "dequant") {
			return false
		}
	}
	end := len(all) - 1
	for end > at && trailing.MatchString(all[end]) {
		end--
	}
	manner := end > at+1 && (all[end-1] == "warp" || all[end-1] == "block") // gemv_warp_reduce is a product whose warps reduce
	return end == at || manner || !nouns[all[end]]
}

// split answers the words of a name in lower case: mul_mat, MatrixMultiply and multiply_matrices are one word, as matmul is.
func split(name string) []string {
	var out []string
	for _, w := range wordsIn.FindAllString(name, -1) {
		w = strings.ToLower(w)
		last := len(out) - 1
		if last < 0 {
			out = append(out, w)
			continue
		}
		switch before := out[last]; {
		case matrix.MatchString(before) && times.MatchString(w):
			out[last] = "matmul"
		case times.MatchString(before) && matrix.MatchString(w):
			out[last] = "mulmat"
		case matrix.MatchString(before) && (w == "vec" || w == "vector"):
			out[last] = "matvec"
		case before == "warm" && w == "up":
			out[last] = "warmup"
		default:
			out = append(out, w)
		}
	}
	return out
}

var (
	matrix = lazyregexp.New(`^(mat|matrix|matrices)$`)
	times  = lazyregexp.New(`^mul(t|tiply|tiplication)?$`)
)

// subject is the part of a plain name that says what the function does: its last component, or the one before where that is a mere
// "kernel"; and of CUTLASS's own launchers the operator that they were made for.
func subject(plain string) string {
	if _, operator, ok := strings.Cut(plain, "<"); ok {
		return subject(strings.TrimSuffix(operator, ">"))
	}
	parts := strings.Split(plain, "::")
	for len(parts) > 1 && (strings.EqualFold(parts[len(parts)-1], "kernel") || rustHash.MatchString(parts[len(parts)-1])) {
		parts = parts[:len(parts)-1]
	}
	return parts[len(parts)-1]
}

// rustHash ends a name that rustc mangled.
var rustHash = lazyregexp.New(`^h[0-9a-f]{16}$`)

// Plain answers the qualified name of a function, without template arguments and parameters, from a name as the driver has it
// (Itanium-mangled) or as tools print it: "_Z6matmulPKfS0_Pfj" is "matmul", "void gemv2T_kernel_val<int, float>(…)" is
// "gemv2T_kernel_val". CUTLASS launches every kernel by one function, so of that the operator is part of the name:
// "cutlass::Kernel2<cutlass_80_simt_sgemm_64x64>". A name that is not understood is answered as it is.
func Plain(name string) string {
	if static, ok := strings.CutPrefix(name, staticPrefix); ok { // its file: the length of a name, the name; then the function's
		if file, rest, ok := strings.Cut(static, "_"); ok {
			if n, err := strconv.Atoi(file); err == nil && 0 < n && n < len(rest)-1 && rest[n] == '_' {
				return Plain(rest[n+1:])
			}
		}
		return name
	}
	if strings.HasPrefix(name, "_Z") {
		if parts, operator, ok := demangle(name[2:]); ok {
			return launched(parts, operator)
		}
		return name
	}
	if !strings.ContainsAny(name, "<( ") {
		return name
	}
	if plain := launched(printed(name)); plain != "" {
		return plain
	}
	return name
}

// staticPrefix begins the name that nvcc gives a static function of a file.
const staticPrefix = "__nv_static_"

func launched(parts []string, operator string) string {
	plain := strings.Join(parts, "::")
	last := parts[len(parts)-1]
	if operator != "" && strings.HasPrefix(plain, "cutlass") && (last == "Kernel" || last == "Kernel2" || last == "device_kernel") {
		plain += "<" + operator + ">"
	}
	return plain
}

// printed takes a demangled name apart: the components of the function's name, and the first template argument of the last.
func printed(name string) (parts []string, operator string) {
	name = strings.NewReplacer("(anonymous namespace)", unnamed, "<unnamed>", unnamed).Replace(name)
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
	return strings.Split(strings.Trim(name, ":"), "::")
}

func operatorName(argument string) string {
	if argument == "" {
		return ""
	}
	parts, _ := printed(argument)
	return strings.Join(parts, "::")
}

// demangle reads the name that begins an Itanium-mangled encoding, as far as a kernel can have
// one, and the name of its first template argument. Source: Itanium C++ ABI, 5.1. Substitutions
// in the middle of a name are not resolved: what they stand for is not its last component.
func demangle(s string) (parts []string, operator string, ok bool) {
	d := mangled{rest: strings.TrimPrefix(s, "L")} // a name with internal linkage
	parts, operator, ok = d.name()
	return parts, operator, ok && len(parts) > 0
}

type mangled struct{ rest string }

func (d *mangled) take(prefix string) bool {
	rest, ok := strings.CutPrefix(d.rest, prefix)
	d.rest = rest
	return ok
}

// name reads <nested-name> or <unscoped-name>, template arguments included.
func (d *mangled) name() (parts []string, operator string, ok bool) {
	nested := d.take("N")
	if nested {
		d.rest = strings.TrimLeft(d.rest, "rVKRO") // qualifiers of a member function
	}
	for d.rest != "" && d.rest[0] != 'E' {
		switch c := d.rest[0]; {
		case isDigit(c):
			id, rest, ok := identifier(d.rest)
			if !ok {
				return nil, "", false
			}
			if strings.HasPrefix(id, "_GLOBAL__N") || strings.HasPrefix(id, "_INTERNAL_") { // of a file
				id = unnamed
			}
			parts, operator, d.rest = append(parts, id), "", rest
			if !nested && !strings.HasPrefix(d.rest, "I") {
				return parts, "", true
			}
		case c == 'B' && len(parts) > 0: // an ABI tag, as Numba writes
			_, rest, ok := identifier(d.rest[1:])
			if !ok {
				return nil, "", false
			}
			d.rest = rest
		case c == 'L' && nested:
			d.rest = d.rest[1:]
		case c == 'I':
			first := mangled{d.rest[1:]}
			rest, ok := skipArguments(d.rest)
			if !ok {
				return nil, "", false
			}
			if of, _, ok := first.argument(); ok {
				operator = strings.Join(of, "::")
			}
			d.rest = rest
			if !nested {
				return parts, operator, len(parts) > 0
			}
		case strings.HasPrefix(d.rest, "St"):
			parts, d.rest = append(parts, "std"), d.rest[2:]
		case c == 'S' && nested: // a substitution: a prefix that was there before
			end := strings.IndexByte(d.rest, '_')
			if end < 0 {
				return nil, "", false
			}
			d.rest = d.rest[end+1:]
		default: // constructors, operators: not the name of a kernel
			return nil, "", false
		}
	}
	return parts, operator, nested && d.take("E") && len(parts) > 0
}

// argument reads a template argument that is a class.
func (d *mangled) argument() (parts []string, operator string, ok bool) {
	if d.rest == "" || d.rest[0] != 'N' && !isDigit(d.rest[0]) {
		return nil, "", false
	}
	return d.name()
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// identifier reads a length and that many bytes.
func identifier(s string) (id, rest string, ok bool) {
	n, i := 0, 0
	for i < len(s) && isDigit(s[i]) && i < 6 {
		n = n*10 + int(s[i]-'0')
		i++
	}
	if n == 0 || n > len(s)-i {
		return "", "", false
	}
	return s[i : i+n], s[i+n:], true
}

// skipArguments passes over I…E. Identifiers are skipped by their length, because they may hold any letter; of a literal, only those of a
// built-in type are understood.
func skipArguments(s string) (rest string, ok bool) {
	depth := 0
	for s != "" {
		switch c := s[0]; {
		case isDigit(c):
			if _, s, ok = identifier(s); !ok {
				return "", false
			}
			continue
		case c == 'L' && len(s) > 1 && 'a' <= s[1] && s[1] <= 'z':
			end := strings.IndexByte(s, 'E')
			if end < 0 {
				return "", false
			}
			s = s[end+1:]
			continue
		case c == 'L' && len(s) > 1 && isDigit(s[1]): // of an enumeration: its name, then the value
			if _, s, ok = identifier(s[1:]); !ok {
				return "", false
			}
			end := strings.IndexByte(s, 'E')
			if end < 0 {
				return "", false
			}
			s = s[end+1:]
			continue
		case c == 'S' || c == 'T': // a substitution or a template parameter: S_, S1A_, Sa
			end := strings.IndexByte(s, '_')
			if len(s) > 1 && 'a' <= s[1] && s[1] <= 'z' {
				end = 1
			}
			if end < 0 {
				return "", false
			}
			s = s[end+1:]
			continue
		case c == 'I' || c == 'N' || c == 'L' || c == 'X' || c == 'J' || c == 'F':
			depth++
		case c == 'E':
			depth--
		}
		s = s[1:]
		if depth == 0 {
			return s, true
		}
	}
	return "", false
}
