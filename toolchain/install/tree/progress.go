package tree

// Event is what an installation does now: a step, or a file of which some bytes are here.
type Event struct {
	Text        string // the step, or the file
	Done, Total int64  // bytes; Total is 0 for a step
}

// Progress is called for each event; the first one of a file has no bytes.
type Progress func(Event)

// Step reports a step.
func (p Progress) Step(text string) { p(Event{Text: text}) }
