package verify

import (
	"fmt"
	"slices"

	"gpubuild/buildenv/exit"
)

// Kind is what the evidence shows.
type Kind int

// Kinds. The zero value is Unproved.
const (
	Unproved     Kind = iota // not known, and Why says what is missing
	Proved                   // a kernel that matches ran on a real device, in a process of the binary itself
	NotUsed                  // everything was seen, and nothing was launched: it ran on the CPU
	OtherKernels             // it used the GPU, but no kernel matched
	NoDevice                 // there is no device here
)

// kinds is the table of verdicts, in the order in which several processes speak for one program. gpu and cpu are the exit codes where the
// GPU and where the CPU was to be used: every command takes them from here. Of several programs the one with the highest number speaks for
// the run: what is certain takes precedence over what is unproved.
var kinds = []struct {
	Kind
	word, title string
	gpu, cpu    int
	run         int
}{
	{Proved, "proved", "Proved", exit.Done, exit.OtherKernels, 0},
	{OtherKernels, "other kernels", "Other", exit.OtherKernels, exit.OtherKernels, 2},
	{Unproved, "unproved", "Not proven:", exit.Unproved, exit.Unproved, 1},
	{NoDevice, "no device", "Not proven:", exit.Unproved, exit.Unproved, 1},
	{NotUsed, "not used", "Not used", exit.NotUsed, exit.Done, 3},
}

// Rank is the place of a verdict among those of one program: the lowest speaks for it.
func (k Kind) Rank() int {
	for i, known := range kinds {
		if known.Kind == k {
			return i
		}
	}
	return Unproved.Rank()
}

func (k Kind) String() string { return kinds[k.Rank()].word }

// Title begins the line for a person.
func (k Kind) Title() string { return kinds[k.Rank()].title }

// Code is the exit code of a verdict, when the program itself ended as expected; cpu: nothing was to run on the GPU.
func (k Kind) Code(cpu bool) int {
	if cpu {
		return kinds[k.Rank()].cpu
	}
	return kinds[k.Rank()].gpu
}

// Worst is the exit code of a run by those of its programs; of none it is exit.Done.
func Worst(codes ...int) int {
	worst, highest := exit.Done, 0
	for _, known := range kinds {
		if known.run > highest && slices.Contains(codes, known.gpu) {
			worst, highest = known.gpu, known.run
		}
	}
	return worst
}

// IsCode reports whether an exit code is that of a verdict.
func IsCode(code int) bool {
	return code != exit.Done && slices.ContainsFunc(Kinds(), func(k Kind) bool { return k.Code(false) == code })
}

// Kinds lists all of them.
func Kinds() (list []Kind) {
	for _, known := range kinds {
		list = append(list, known.Kind)
	}
	return list
}

func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote; anything else is an error and Unproved.
func (k *Kind) UnmarshalText(b []byte) error {
	*k = Unproved
	for _, known := range kinds {
		if known.word == string(b) {
			*k = known.Kind
			return nil
		}
	}
	return fmt.Errorf("%.200q is not a verdict", b)
}
