package cargo

import (
	"fmt"
	"strings"

	"gpubuild/buildenv/lazyregexp"
)

// cfgs are the conditions that hold for a target, as `rustc --print cfg` lists them: a name alone, or name="value".
type cfgs map[string]bool

func parseCfgs(out []byte) cfgs {
	c := cfgs{}
	for line := range strings.Lines(string(out)) {
		c[strings.TrimSpace(line)] = true
	}
	return c
}

var cfgToken = lazyregexp.New(`[A-Za-z0-9_]+|"[^"]*"|\S`)

// match evaluates cfg(all(unix, not(target_arch = "x86"))), the key of a target table in cargo's configuration.
func (c cfgs) match(expr string) (bool, error) {
	body, ok := strings.CutPrefix(strings.TrimSpace(expr), "cfg(")
	body, closed := strings.CutSuffix(body, ")")
	p := cfgParser{cfgs: c, rest: cfgToken.FindAllString(body, -1), bad: !ok || !closed}
	holds := p.expr(0)
	if p.bad || len(p.rest) > 0 {
		return false, fmt.Errorf("%.200q is not understood", expr)
	}
	return holds, nil
}

type cfgParser struct {
	cfgs cfgs
	rest []string
	bad  bool
}

// eat takes a token if it is the next one.
func (p *cfgParser) eat(token string) bool {
	if len(p.rest) == 0 || p.rest[0] != token {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// word takes the next token, which is a name or a text in quotes.
func (p *cfgParser) word(quoted bool) string {
	if len(p.rest) == 0 || strings.ContainsAny(p.rest[0][:1], `(),=`) || quoted != (p.rest[0][0] == '"') || p.rest[0] == `"` {
		p.bad = true
		return ""
	}
	w := p.rest[0]
	p.rest = p.rest[1:]
	return w
}

func (p *cfgParser) expr(depth int) bool {
	name := p.word(false)
	p.bad = p.bad || depth > 64
	switch {
	case p.bad:
		return false
	case (name == "all" || name == "any" || name == "not") && p.eat("("):
		every, some, n := true, false, 0
		for !p.bad && !p.eat(")") {
			v := p.expr(depth + 1)
			every, some, n = every && v, some || v, n+1
			p.bad = p.bad || !p.eat(",") && (len(p.rest) == 0 || p.rest[0] != ")")
		}
		p.bad = p.bad || name == "not" && n != 1
		return map[string]bool{"all": every, "any": some, "not": !every}[name]
	case p.eat("="):
		return p.cfgs[name+"="+p.word(true)]
	}
	return name == "true" || name != "false" && p.cfgs[name]
}
