package verify

import "slices"

// Reconsider returns stored evidence with its drivers judged once more: one counts as real only if it did when it was seen and still does
// by real. The files of the machine where it was recorded need not be here, so what was found out about them then stands as it was stored.
func Reconsider(e Evidence, real func(Loaded) (bool, string)) Evidence {
	again := func(ok bool, note string, l Loaded) (bool, string) {
		if !ok {
			return false, note
		}
		l.Drivers = nil // that they are one file was seen then, and can be seen only there
		if still, why := real(l); !still {
			return false, why
		}
		return true, note
	}
	e.Control.Real, e.Control.RealNote = again(e.Control.Real, e.Control.RealNote, e.Control.Loaded)
	if e.After != nil {
		after := *e.After
		after.Real, after.RealNote = again(after.Real, after.RealNote, after.Loaded)
		e.After = &after
	}
	e.Processes = slices.Clone(e.Processes)
	for i := range e.Processes {
		p := &e.Processes[i]
		p.Real, p.RealNote = again(p.Real, p.RealNote, p.Loaded)
	}
	return e
}
