package help

import (
	"cmp"

	"github.com/urfave/cli/v2"

	"gpubuild/toolchain/cargo"
)

// Flag is a flag of ours: urfave/cli sets it by its Value; help, the manual page and completion list it.
type Flag struct {
	cli.GenericFlag
	Short  string // its one letter; empty: none
	Kind   cargo.Kind
	Holder string // the value's name in help

	Refused error // what was wrong with the value that the user gave
}

// NewFlag makes a flag whose value set takes; a switch has none.
func NewFlag(name string, kind cargo.Kind, holder, meaning string, set func(string) error) *Flag {
	f := &Flag{Kind: kind, Holder: holder}
	f.Name, f.Usage, f.Category, f.Value = name, meaning, "Options", value{f, set}
	return f
}

// value is what urfave/cli sets.
type value struct {
	*Flag
	set func(string) error
}

// Set keeps the error: urfave/cli makes text of it.
func (v value) Set(s string) error {
	v.Refused = v.set(s)
	return v.Refused
}

func (v value) String() string   { return "" }
func (v value) IsBoolFlag() bool { return v.Kind != cargo.Value } // its value, if any, follows an equals sign

// TakesValue is for the manual page.
func (f *Flag) TakesValue() bool { return f.Kind != cargo.Switch }

// GetUsage is what the manual page says of the flag.
func (f *Flag) GetUsage() string {
	if f.TakesValue() {
		return f.Holder + ": " + f.Usage
	}
	return f.Usage
}

// String is the flag's line of help, in two columns.
func (f *Flag) String() string {
	name := "--" + f.Name
	if f.Short != "" {
		name = "-" + f.Short + ", " + name
	}
	switch f.Kind {
	case cargo.Optional:
		name += "[=" + f.Holder + "]"
	case cargo.Value:
		name += " " + f.Holder
	}
	return name + "\t" + f.Usage
}

// flagsOf are the flags of ours among those of a command.
func flagsOf(c *cli.Command) (out []Flag) {
	for _, f := range c.Flags {
		if f, ours := f.(*Flag); ours {
			out = append(out, *f)
		}
	}
	return out
}

// key is the name by which a flag is found.
func (f Flag) key() string { return cmp.Or(f.Name, f.Short) }
