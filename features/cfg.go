package features

import "strings"

// mayApply says whether a target table can apply to what is built here: false only when that is certain.
func mayApply(target, os, arch string) bool {
	expr, ok := strings.CutPrefix(target, "cfg(")
	if !ok {
		return true // a triple
	}
	return evalCfg(strings.TrimSuffix(expr, ")"), os, arch) != no
}

type truth int

const (
	maybe truth = iota
	yes
	no
)

func evalCfg(s, os, arch string) truth { return evalDepth(s, os, arch, 0) }

func evalDepth(s, os, arch string, depth int) truth {
	s = strings.TrimSpace(s)
	if depth > 50 {
		return maybe
	}
	if fn, args, ok := strings.Cut(s, "("); ok && strings.HasSuffix(args, ")") {
		parts := splitArgs(strings.TrimSuffix(args, ")"))
		some := false
		switch strings.TrimSpace(fn) {
		case "not":
			if len(parts) != 1 {
				return maybe
			}
			return []truth{maybe, no, yes}[evalDepth(parts[0], os, arch, depth+1)]
		case "all":
			for _, p := range parts {
				switch evalDepth(p, os, arch, depth+1) {
				case no:
					return no
				case maybe:
					some = true
				}
			}
			if some {
				return maybe
			}
			return yes
		case "any":
			for _, p := range parts {
				switch evalDepth(p, os, arch, depth+1) {
				case yes:
					return yes
				case maybe:
					some = true
				}
			}
			if some {
				return maybe
			}
			return no
		}
		return maybe
	}
	is := func(b bool) truth {
		if b {
			return yes
		}
		return no
	}
	key, value, ok := strings.Cut(s, "=")
	if !ok {
		switch s {
		case "windows":
			return is(os == "windows")
		case "unix":
			return is(os != "windows")
		}
		return maybe
	}
	value = strings.Trim(strings.TrimSpace(value), `"`)
	switch strings.TrimSpace(key) {
	case "target_os":
		return is(value == map[string]string{"linux": "linux", "windows": "windows", "darwin": "macos"}[os])
	case "target_family":
		return is(value == "windows" && os == "windows" || value == "unix" && os != "windows")
	case "target_arch":
		return is(value == map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch])
	}
	return maybe
}

// splitArgs splits at commas outside brackets and quotes.
func splitArgs(s string) []string {
	var out []string
	depth, begin, quoted := 0, 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			out = append(out, s[begin:i])
			begin = i + 1
		}
	}
	if strings.TrimSpace(s[begin:]) != "" {
		out = append(out, s[begin:])
	}
	return out
}
