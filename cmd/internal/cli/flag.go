package cli

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"gpubuild/toolchain/cargo"
)

// flag is a flag of a verb of ours: urfave parses it, and help words it as cargo's does.
type flag struct {
	cli.GenericFlag
	kind    cargo.Kind
	holder  string // what help calls the value
	set     func(string) error
	refused error // why its value could not be set
}

// newFlag makes a flag that set takes the value of; a switch has none.
func newFlag(name string, kind cargo.Kind, holder, meaning string, set func(string) error) *flag {
	f := &flag{GenericFlag: cli.GenericFlag{Name: name, Usage: meaning}, kind: kind, holder: holder, set: set}
	f.Value = &value{f}
	return f
}

// value is how urfave sets a flag.
type value struct{ of *flag }

func (v *value) String() string { return "" }

func (v *value) Set(text string) error {
	v.of.refused = v.of.set(text)
	return v.of.refused
}

// String is the flag's line of help: the value's name stands behind the flag's, once.
func (f *flag) String() string {
	holder := ""
	switch f.kind {
	case cargo.Optional:
		holder = "[=" + f.holder + "]"
	case cargo.Value:
		holder = " " + f.holder
	}
	return "--" + f.Name + holder + "\t" + f.Usage
}

// cargoFlags are our flags on cargo's verbs, as help shows them.
func cargoFlags() []*flag {
	var out []*flag
	for _, f := range CargoFlags() {
		out = append(out, newFlag("gpu-"+f.Name, f.Kind, f.Holder, f.Meaning, nil))
	}
	return out
}

func (v verb) urfave() []cli.Flag {
	out := make([]cli.Flag, len(v.flags))
	for i, f := range v.flags {
		out[i] = f
	}
	return out
}

// toggle is a flag without a value.
func toggle(name, meaning string, to *bool) *flag {
	return newFlag(name, cargo.Switch, "", meaning, func(string) error { *to = true; return nil })
}

// text is a flag whose value may be anything.
func text(name, holder, meaning string, to *string) *flag {
	return newFlag(name, cargo.Value, holder, meaning, func(v string) error { *to = v; return nil })
}

// choice is a flag whose value is one of a few.
func choice(name, holder, meaning string, to *string, all ...string) *flag {
	return newFlag(name, cargo.Value, holder, meaning, func(v string) error {
		if !slices.Contains(all, v) {
			if len(all) == 2 {
				return fmt.Errorf("%q is neither %s nor %s", v, all[0], all[1])
			}
			list := all[0]
			for _, a := range all[1:] {
				list += ", " + a
			}
			return fmt.Errorf("%q is none of %s", v, list)
		}
		*to = v
		return nil
	})
}

// shared are flags of cargo's verbs that a verb of ours has, too, without their prefix.
func shared(o *Options, names ...string) []*flag {
	var out []*flag
	for _, name := range names {
		f, ok := CargoFlag(name)
		if !ok {
			panic("no flag of cargo's verbs is called " + name)
		}
		out = append(out, newFlag(f.Name, f.Kind, f.Holder, f.Meaning, func(v string) error { return f.Set(o, v) }))
	}
	return out
}

// toolFlags are the flags of verbs that choose tools.
func toolFlags(o *Options) []*flag { return shared(o, "toolkit", "arch", "ccbin") }

// resultFlags say where a verb's result goes.
func resultFlags(o *Options) []*flag { return shared(o, "sarif", "junit", "json") }

// answerFlag is the flag of verbs that have a machine-readable answer alone.
func answerFlag(o *Options) []*flag { return shared(o, "json") }

// jsonFlag is answerFlag for verbs that share no other option.
func jsonFlag(to **string) *flag {
	f, _ := CargoFlag("json")
	return newFlag(f.Name, f.Kind, f.Holder, f.Meaning, func(v string) error { *to = &v; return nil })
}
