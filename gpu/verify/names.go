package verify

import (
	"regexp"
	"strings"
)

// Patterns say which kernel names mean a matrix product. A name matches when Any does and neither Convolution nor Auxiliary does, each
// asked of the name as recorded and of the function's name inside a mangled one. Patterns age: an unknown name makes OtherKernels, never
// NotUsed. Source: shared/facts/proof.md, 3.
type Patterns struct {
	Any, Convolution, Auxiliary *regexp.Regexp
}

// DefaultPatterns are those for a matrix product.
func DefaultPatterns() Patterns {
	return Patterns{
		Any:         regexp.MustCompile(`(?i)(gemm|gemv|matmul|mul_?mat|mmvq|mmq|nvjet|xmma|cmma|wmma)`),
		Convolution: regexp.MustCompile(`(?i)(implicit_gemm|implicit_convolve|fprop|dgrad|wgrad|cudnn)`),
		Auxiliary:   regexp.MustCompile(`(?i)(splitk.?reduce|fill|copy|cast|memset)`),
	}
}

// Match says whether a kernel's name means a matrix product.
func (p Patterns) Match(name string) bool { return p.matcher()(name, Plain(name)) }

// matcher is Match for many names, each with what Plain says of it.
func (p Patterns) matcher() func(name, plain string) bool {
	wanted, convolution, auxiliary := newMatcher(p.Any), newMatcher(p.Convolution), newMatcher(p.Auxiliary)
	return func(name, plain string) bool {
		return either(wanted, name, plain) && !either(convolution, name, plain) && !either(auxiliary, name, plain)
	}
}

// either asks of the name as recorded, and of the function's name inside a mangled one.
func either(m matcher, name, plain string) bool {
	return m.match(name, strings.ToLower(name)) || plain != name && m.match(plain, strings.ToLower(plain))
}

// Plain answers the qualified name of the function inside an Itanium-mangled name, without template arguments and parameters:
// "_Z6matmulPKfS0_Pfj" is "matmul", "_ZN7cutlass6KernelI4gemmEEv" is "cutlass::Kernel". A name that is not understood is answered as it is.
func Plain(name string) string {
	rest, ok := strings.CutPrefix(name, "_Z")
	if !ok || rest == "" {
		return name
	}
	rest = strings.TrimPrefix(rest, "L") // a name with internal linkage
	if rest != "" && isDigit(rest[0]) {
		id, _, ok := identifier(rest)
		if !ok {
			return name
		}
		return id
	}
	rest, ok = strings.CutPrefix(rest, "N")
	if !ok {
		return name
	}
	rest = strings.TrimLeft(rest, "rVKRO") // qualifiers of a member function
	var parts []string
	for rest != "" && rest[0] != 'E' {
		switch {
		case isDigit(rest[0]):
			id, tail, ok := identifier(rest)
			if !ok {
				return name
			}
			if strings.HasPrefix(id, "_GLOBAL__N") {
				id = "(anonymous namespace)"
			}
			parts, rest = append(parts, id), tail
		case rest[0] == 'L':
			rest = rest[1:]
		case rest[0] == 'I':
			tail, ok := skipArguments(rest)
			if !ok {
				return name
			}
			rest = tail
		case strings.HasPrefix(rest, "St"):
			parts, rest = append(parts, "std"), rest[2:]
		default: // constructors, operators, substitutions: not the name of a kernel
			return name
		}
	}
	if len(parts) == 0 || rest == "" {
		return name
	}
	return strings.Join(parts, "::")
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
