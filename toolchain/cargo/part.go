package cargo

import "slices"

// Part is one piece of a command line, in the order in which it was typed: an argument, or a flag with its value.
type Part struct {
	Kind  PartKind
	Words []string
}

// PartKind is what a piece of a command line is, for those that store or print it.
type PartKind int

// Kinds of parts.
const (
	PlainPart   PartKind = iota // cargo's own, and what Split leaves to cargo
	VerbPart                    // the subcommand
	SettingPart                 // --config with its value
	OwnPart                     // one of our flags
	ProgramPart                 // an argument for a program, or behind a subcommand whose arguments nobody here understands
)

// Parts are all pieces of the line. Of an alias they are those of the line that it expands to.
func (l Line) Parts() []Part { return slices.Clone(l.parts) }

// part is what an item is; unread is that of one that is not understood.
func (i item) part(unread PartKind) PartKind {
	switch {
	case len(i.flags) == 0:
		return unread
	case i.flags[0].Name == "--config":
		return SettingPart
	}
	return PlainPart
}
