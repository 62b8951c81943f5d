package app

import (
	"fmt"
	"sort"
	"strings"

	"gpubuild/buildenv/exit"
	"gpubuild/toolchain/cargo"
)

// usageError says what is wrong with our own part of the command line.
type usageError struct{ What, Fix string }

func (e *usageError) Error() string { return e.What }

// ExitCode is exit.Usage.
func (e *usageError) ExitCode() int { return exit.Usage }
func (e *usageError) Hint() string  { return e.Fix }

// table makes the splitter's table of the flags of a verb, with their prefix; cargo's verbs are called "".
func table(g group, prefix, verb string) (cargo.OwnFlags, map[string]flag) {
	own, byName := cargo.OwnFlags{}, map[string]flag{}
	for _, f := range flags {
		if !f.known(g, verb) {
			continue
		}
		name := prefix + f.name
		byName[name] = f
		switch f.value {
		case none:
			own[name] = cargo.Switch
		case optional:
			own[name] = cargo.Optional
		default:
			own[name] = cargo.Value
		}
	}
	return own, byName
}

func apply(o *Options, given []cargo.Own, byName map[string]flag) error {
	for _, g := range given {
		if err := byName[g.Name].set(o, g.Value); err != nil {
			return &flagError{g.Name, err}
		}
	}
	return nil
}

// parseCargo takes a command line in cargo's words apart; our flags begin with --gpu-.
func parseCargo(words []string) (Options, cargo.Line, error) {
	own, byName := table(onCargo, "--gpu-", "")
	l, given, err := cargo.Split(words, own)
	if err != nil {
		return Options{}, cargo.Line{}, err
	}
	var o Options
	return o, l, apply(&o, given, byName)
}

// parseOwn takes the words of one of our verbs apart. The verbs that look at a project read cargo's selection flags as `cargo build` does;
// on the others every flag must be ours.
func parseOwn(v verb, words []string) (Options, cargo.Line, error) {
	own, byName := table(v.group, "--", v.name)
	line := append([]string{"build"}, words...)
	if v.group == onProject && len(words) > 0 && strings.HasPrefix(words[0], "+") { // rustup's word stands before cargo's verb
		line[0], line[1] = words[0], "build"
	}
	l, given, err := cargo.Split(line, own)
	if err != nil {
		return Options{}, cargo.Line{}, err
	}
	if v.group != onProject {
		for _, w := range l.Args {
			if strings.HasPrefix(w, "-") && w != "-" {
				known := make([]string, 0, len(own))
				for name := range own {
					known = append(known, name)
				}
				sort.Strings(known)
				return Options{}, cargo.Line{}, &usageError{fmt.Sprintf("gpubuild %s knows no flag %s", v.name, w), "it knows " + strings.Join(known, ", ") + "; see `gpubuild " + v.name + " --help`"}
			}
		}
	}
	var o Options
	return o, l, apply(&o, given, byName)
}
