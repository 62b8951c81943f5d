package cargo

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gpubuild/buildenv/exit"
)

// Kind says what value an own flag takes.
type Kind int

// An own flag is a switch, needs a value (--gpu-x=v, --gpu-x v) or may have one (--gpu-x=v only, since the next word could be cargo's).
const (
	Switch Kind = iota
	Value
	Optional
)

// OwnFlags are the flags that are ours and not cargo's, by their whole name ("--gpu-arch"). Names beginning with --gpu- that are not in
// it are a usage error rather than passed on.
type OwnFlags map[string]Kind

// ownPrefix is what all of our flags on cargo's verbs begin with.
const ownPrefix = "--gpu-"

// Own is one of our flags as it was given.
type Own struct {
	Name     string
	Value    string
	HasValue bool
}

// Split takes a command line apart: our own flags out of it, the rest as cargo will understand it. args do not hold the program's own
// name. Faults that cargo reports better (unknown flags, missing values of its own) are left to cargo; an error is an *exit.UsageError, and
// the line and our flags that are right are returned with it.
//
// Our flags are found anywhere before -- and, with run and rustc, before the
// first positional word: from there on the words belong to the program.
func Split(args []string, own OwnFlags) (Line, []Own, error) {
	s := splitter{args: args, total: len(args), own: own}
	if strings.HasPrefix(s.peek(), "+") && len(s.peek()) > 1 {
		s.line.Toolchain = s.next()[1:]
		s.part(PlainPart, "+"+s.line.Toolchain)
	}
	if err := s.head(); err != nil {
		return s.line, s.owns, err
	}
	s.tail()
	l := s.line
	l.typed, l.parts = args, s.parts
	for _, it := range l.globals {
		l.Global = append(l.Global, it.words...)
	}
	for _, it := range l.items {
		l.Args = append(l.Args, it.words...)
	}
	l.read()
	if s.wrong != nil {
		return l, s.owns, s.wrong
	}
	if l.VerbWord == "" && l.Verb == "build" && len(l.Positional) > 0 {
		word := l.Positional[0]
		if _, known := verbs[Canonical(word)]; known {
			flags := strings.Join(l.Args[:max(0, len(l.Args)-len(l.Positional))], " ")
			return l, s.owns, exit.Usagef("put the verb first: gpubuild "+word+" "+flags,
				"`%s` stands after flags and is no argument of `build`", word)
		}
	}
	return l, s.owns, nil
}

type splitter struct {
	args  []string // what is left
	total int      // how many there were
	own   OwnFlags
	line  Line
	owns  []Own
	wrong error // with the first of our flags that is wrong
	parts []Part
}

func (s *splitter) part(kind PartKind, words ...string) { s.parts = append(s.parts, Part{kind, words}) }

func (s *splitter) peek() string {
	if len(s.args) == 0 {
		return ""
	}
	return s.args[0]
}

func (s *splitter) next() string {
	w := s.args[0]
	s.args = s.args[1:]
	return w
}

// head reads up to and with the verb. The first flag that may not stand before a verb means that there is none: build.
func (s *splitter) head() error {
	g := grammarOf(globalFlags, topFlags)
	for len(s.args) > 0 {
		word := s.peek()
		if word == "--" {
			break
		}
		if s.takeOwn() {
			continue
		}
		if !strings.HasPrefix(word, "-") {
			if word == "" {
				break
			}
			s.line.verbAt = s.total - len(s.args)
			s.line.VerbWord = s.next()
			s.line.Verb = Canonical(s.line.VerbWord)
			s.part(VerbPart, s.line.VerbWord)
			return nil
		}
		it, ok := g.parse(s.args)
		if !ok {
			break
		}
		s.args = s.args[len(it.words):]
		s.line.globals = append(s.line.globals, it)
		s.part(it.part(PlainPart), it.words...)
	}
	for _, it := range s.line.globals {
		for _, f := range it.flags {
			switch f.Name {
			case "--version", "--list", "--explain":
				return nil // cargo's own affair: no verb is implied
			case "-C", "-Z", "--config", "--color":
				if !f.HasValue { // it would take the verb that we put in
					return exit.Usagef("write it after "+f.Name+" or leave the flag out", "`%s` needs a value", f.Name)
				}
			}
		}
	}
	s.line.Verb = "build"
	return nil
}

// tail reads what follows the verb.
func (s *splitter) tail() {
	if s.line.Verb == "" {
		// cargo --list, --version: whatever follows is cargo's to judge
		for len(s.args) > 0 {
			s.line.items = append(s.line.items, item{words: []string{s.next()}})
			s.part(PlainPart, s.line.items[len(s.line.items)-1].words...)
		}
		return
	}
	g, spec := verbGrammar(s.line.Verb), verbs[s.line.Verb]
	unread, positional := PlainPart, PlainPart // of a plugin or an alias nobody knows what they are
	if _, known := verbs[s.line.Verb]; !known && s.line.Verb != "nextest" {
		unread, positional = ProgramPart, ProgramPart
	} else if spec.rest == restWords {
		positional = ProgramPart
	}
	for len(s.args) > 0 {
		word := s.peek()
		if word == "--" {
			s.line.HasTrailing = true
			s.line.Trailing = s.args[1:]
			s.part(PlainPart, word)
			s.part(ProgramPart, s.line.Trailing...)
			s.args = nil
			return
		}
		if s.takeOwn() {
			continue
		}
		if len(word) > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9') {
			it, ok := g.parse(s.args)
			if !ok {
				it = item{words: []string{word}}
			}
			s.args = s.args[len(it.words):]
			s.line.items = append(s.line.items, it)
			s.part(it.part(unread), it.words...)
			continue
		}
		s.part(positional, word)
		s.line.items = append(s.line.items, item{words: []string{s.next()}, positional: true})
		if spec.rest == restWords {
			for len(s.args) > 0 {
				s.part(positional, s.peek())
				s.line.items = append(s.line.items, item{words: []string{s.next()}, positional: true})
			}
		}
	}
}

// takeOwn takes an own flag off the front. After one that is wrong the others are still read: the error is put where they say.
func (s *splitter) takeOwn() bool {
	name, value, has := strings.Cut(s.peek(), "=")
	kind, known := s.own[name]
	if !known && !strings.HasPrefix(name, ownPrefix) {
		return false
	}
	o, words, wrong := Own{Name: name, Value: value, HasValue: has}, s.args[:1], error(nil)
	switch {
	case !known:
		wrong = s.unknown(name)
	case kind == Switch && has:
		wrong = exit.Usagef("write "+name+" alone", "`%s` takes no value, but `%s` was given", name, value)
	case kind == Value && !has:
		if len(s.args) < 2 || s.args[1] == "--" || len(s.args[1]) > 1 && s.args[1][0] == '-' {
			wrong = exit.Usagef("write "+name+"=VALUE", "`%s` needs a value", name)
			break
		}
		words = s.args[:2]
		s.next()
		o.Value, o.HasValue = s.peek(), true
	}
	if s.next(); wrong == nil && kind == Value && o.Value == "" { // of a variable that is not set: --runs-on "$GPU"
		wrong = exit.Usagef("write "+name+"=VALUE", "`%s` has an empty value", name)
	}
	if wrong != nil {
		s.wrong = cmp.Or(s.wrong, wrong)
		return true
	}
	s.owns = append(s.owns, o)
	s.part(OwnPart, words...)
	return true
}

// unknown is the error for a flag that begins like ours and is none.
func (s *splitter) unknown(name string) error {
	all := slices.Collect(maps.Keys(s.own))
	// On our own verbs our flags have no prefix, and cargo's have it nowhere.
	if bare := "--" + strings.TrimPrefix(name, ownPrefix); slices.Contains(all, bare) ||
		slices.ContainsFunc(Names("build"), func(n Name) bool { return "--"+n.Long == bare }) {
		return exit.Usagef("", "unknown flag `%s`; did you mean `%s`?", name, bare)
	}
	return exit.Unknown("flag", name, all, "`gpubuild build --help` lists the flags")
}

// parse understands the flag at the front of args; it answers false for one that it does not know.
func (g grammar) parse(args []string) (item, bool) {
	word := args[0]
	if strings.HasPrefix(word, "--") {
		name, value, has := strings.Cut(word[2:], "=")
		spec, ok := g.long[name]
		if !ok {
			return item{}, false
		}
		it := item{words: args[:1:1]}
		f := Flag{Name: spec.name(), Value: value, HasValue: has}
		if !has && takesNext(spec.arity, args[1:]) {
			it.words = args[:2:2]
			f.Value, f.HasValue = args[1], true
		}
		it.flags = []Flag{f}
		return it, true
	}
	return g.cluster(args)
}

// cluster understands -v, -qr, -j8, -Fcuda, -rFcuda, -F=cuda and -F cuda.
func (g grammar) cluster(args []string) (item, bool) {
	word := args[0]
	it := item{words: args[:1:1]}
	for i := 1; i < len(word); i++ {
		spec, ok := g.short[word[i]]
		if !ok {
			return item{}, false
		}
		f := Flag{Name: spec.name()}
		if spec.arity == none {
			it.flags = append(it.flags, f)
			continue
		}
		if i+1 < len(word) {
			f.Value, f.HasValue = strings.TrimPrefix(word[i+1:], "="), true
		} else if takesNext(spec.arity, args[1:]) {
			it.words = args[:2:2]
			f.Value, f.HasValue = args[1], true
		}
		it.flags = append(it.flags, f)
		break
	}
	return it, true
}

// takesNext reports whether a flag without an attached value takes the word after it. clap never takes one that looks like a flag, "-"
// alone excepted, unless the flag allows it; a missing value is then cargo's error to report.
func takesNext(a arity, after []string) bool {
	if len(after) == 0 || a == none || a == attached || after[0] == "--" {
		return false
	}
	return a == hyphen || len(after[0]) < 2 || after[0][0] != '-'
}
