package cargo

import (
	"fmt"
	"strings"
)

// Cfgs are the conditions that hold for a target, as `rustc --print cfg` lists them: a name alone, or name="value".
type Cfgs map[string]bool

// ParseCfgs reads the answer to `rustc --print cfg`.
func ParseCfgs(out []byte) Cfgs {
	c := Cfgs{}
	for _, line := range strings.Split(string(out), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			c[line] = true
		}
	}
	return c
}

// Match evaluates cfg(all(unix, not(target_arch = "x86"))), the key of a target table in cargo's configuration.
func (c Cfgs) Match(expr string) (bool, error) {
	body, ok := strings.CutPrefix(strings.TrimSpace(expr), "cfg(")
	if !ok || !strings.HasSuffix(body, ")") {
		return false, fmt.Errorf("%q is no cfg expression", expr)
	}
	p := cfgParser{cfgs: c, rest: body[:len(body)-1]}
	v, err := p.expr(0)
	if p.space(); err == nil && p.rest != "" {
		err = fmt.Errorf("unexpected %q", p.rest)
	}
	if err != nil {
		return false, fmt.Errorf("%q: %w", expr, err)
	}
	return v, nil
}

type cfgParser struct {
	cfgs Cfgs
	rest string
}

func (p *cfgParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *cfgParser) eat(s string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, s)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *cfgParser) word() string {
	p.space()
	i := 0
	for i < len(p.rest) && (p.rest[i] == '_' || '0' <= p.rest[i] && p.rest[i] <= '9' || 'a' <= p.rest[i]|0x20 && p.rest[i]|0x20 <= 'z') {
		i++
	}
	w := p.rest[:i]
	p.rest = p.rest[i:]
	return w
}

func (p *cfgParser) expr(depth int) (bool, error) {
	if depth > 64 {
		return false, fmt.Errorf("nested more than 64 deep")
	}
	name := p.word()
	if name == "" {
		return false, fmt.Errorf("a name is missing")
	}
	switch {
	case (name == "all" || name == "any" || name == "not") && p.eat("("):
		return p.list(name, depth)
	case p.eat("="):
		if !p.eat(`"`) {
			return false, fmt.Errorf("the value of %s is not in quotes", name)
		}
		value, rest, ok := strings.Cut(p.rest, `"`)
		if !ok {
			return false, fmt.Errorf("the value of %s has no closing quote", name)
		}
		p.rest = rest
		return p.cfgs[name+`="`+value+`"`], nil
	case name == "true":
		return true, nil
	case name == "false":
		return false, nil
	}
	return p.cfgs[name], nil
}

func (p *cfgParser) list(name string, depth int) (bool, error) {
	every, some, n := true, false, 0
	for !p.eat(")") {
		v, err := p.expr(depth + 1)
		if err != nil {
			return false, err
		}
		every, some, n = every && v, some || v, n+1
		if !p.eat(",") {
			if p.eat(")") {
				break
			}
			return false, fmt.Errorf("%s( is not closed", name)
		}
	}
	switch {
	case name == "not" && n != 1:
		return false, fmt.Errorf("not() takes one condition, not %d", n)
	case name == "not":
		return !every, nil
	case name == "any":
		return some, nil
	}
	return every, nil
}
