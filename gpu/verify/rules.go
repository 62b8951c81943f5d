package verify

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gpubuild/gpu/kernelname"
)

// Rules say what is asked of the evidence.
type Rules struct {
	Kernel *regexp.Regexp // what counts as a match, by the name as recorded or the plain one; nil: a matrix product
	// the device that they must be on: a UUID or its beginning, or the number that the process gives it; empty: any
	Device     string
	Child      string // a glob of executables, by path, its end or name: children that count like the binary itself; empty: none
	ExpectExit int

	MinLaunches uint64        // how many launches must match and count; 0: one
	MinTime     time.Duration // how long these must have run on the device, together
	MinChildren int           // how many processes that Child names must have run one
}

// AskForMore reports whether they ask for more than any matrix product of the program.
func (r Rules) AskForMore() bool {
	return r.Kernel != nil || r.Device != "" || r.Child != "" || r.MinLaunches > 0 || r.MinTime > 0
}

// tooLittle returns what is missing where kernels that match ran, but not as many of them, or not as long, as is asked for.
func (r Rules) tooLittle(s summary) string {
	switch {
	case s.matched < r.MinLaunches:
		return fmt.Sprintf("%s of kernels that match, and at least %d are asked for (--min-launches)",
			counted(s.matched, "launch was", "launches were"), r.MinLaunches)
	case s.waitedTime < uint64(r.MinTime):
		return fmt.Sprintf("the kernels that match ran for %s on the device, and at least %s is asked for (--min-gpu-time)",
			spent(s.waitedTime), r.MinTime)
	case s.workers < r.MinChildren:
		return fmt.Sprintf("%s of `%s` ran a kernel that matches, and at least %d are asked for (--min-children)",
			counted(uint64(s.workers), "process", "processes"), r.Child, r.MinChildren)
	}
	return ""
}

// onDevice reports whether a device is the one that is asked for. Numbers are the process's own: CUDA_VISIBLE_DEVICES shifts them.
func (r Rules) onDevice(ordinal int, uuid string) bool {
	if r.Device == "" {
		return true
	}
	if n, err := strconv.Atoi(r.Device); err == nil {
		return n == ordinal
	}
	const enough = 8 // digits: a shorter beginning may be that of two devices
	want, is := digits(r.Device), digits(uuid)
	return strings.EqualFold(r.Device, uuid) || len(want) >= enough && strings.HasPrefix(is, want)
}

// digits is a UUID without the word in front: the driver says of a slice of a device (MIG) only the digits.
func digits(uuid string) string {
	uuid = strings.ToUpper(uuid)
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(uuid, "GPU-"), "MIG-"), uuid)
}

// asksFor reports whether an executable is that of a child whose launches are to count.
func (r Rules) asksFor(exe string) bool {
	if r.Child == "" || exe == "" {
		return false
	}
	// Linux' words for a file that is gone, and for one that was only ever in memory (memfd_create)
	exe, glob := strings.TrimPrefix(strings.TrimSuffix(exe, " (deleted)"), "/memfd:"), r.Child
	if len(exe) > 2 && exe[1] == ':' { // a Windows path: its case means nothing, and in a glob a backslash would quote
		exe = strings.ToLower(strings.ReplaceAll(exe, `\`, "/"))
		glob = strings.ToLower(strings.ReplaceAll(glob, `\`, "/"))
	}
	parts := strings.Split(exe, "/")                                                                         // as many of its last as the glob has: a name, the end of a path, a whole path
	matches, _ := path.Match(glob, strings.Join(parts[max(0, len(parts)-1-strings.Count(glob, "/")):], "/")) // a bad glob matches nothing
	return matches
}

// names reports whether a kernel's name is one that is asked for.
func (r Rules) names(name, plain string) bool {
	if r.Kernel != nil {
		return r.Kernel.MatchString(name) || r.Kernel.MatchString(plain)
	}
	return kernelname.IsProduct(plain)
}
