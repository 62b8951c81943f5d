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

func evalCfg(s, os, arch string) truth {
	p := platform{
		os:   map[string]string{"linux": "linux", "windows": "windows", "darwin": "macos"}[os],
		arch: map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch],
	}
	return evalWith(s, p.cfg, 0)
}

// evalWith evaluates a cfg expression by what is told of its names.
func evalWith(s string, cfg func(key, value string, named bool) truth, depth int) truth {
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
			return []truth{maybe, no, yes}[evalWith(parts[0], cfg, depth+1)]
		case "all":
			for _, p := range parts {
				switch evalWith(p, cfg, depth+1) {
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
				switch evalWith(p, cfg, depth+1) {
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
	key, value, named := strings.Cut(s, "=")
	return cfg(strings.TrimSpace(key), strings.Trim(strings.TrimSpace(value), `"`), named)
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
