package cargorun

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"maps"

	"gpubuild/toolchain/cargo"
)

// stream passes cargo's JSON messages on to a consumer as those of one build, however often cargo was run: once more after something had to
// be cleaned, and for `run`, `test` and `bench` again to start the programs.
//
// What cannot become untrue goes on at once: diagnostics, and what was compiled. What cargo only found fresh, and which scripts had run, is
// held back until nothing will be built any more, since cleaning may change it. So each unit is reported once, with `fresh` as it was over
// the whole, no diagnostic comes twice, and build-finished is cargo's last line, with the result of the whole: false where a build that
// cargo calls good is not what was asked for. After a second build that failed, what the first one compiled has been reported and may be
// gone, as after any failed build.
type Stream struct {
	whole    func(line []byte)
	earlier  map[[32]byte]bool // diagnostics and whatever else was passed on by an earlier run of cargo
	now      map[[32]byte]bool // by this one
	reported map[string]bool   // units
	held     map[string][]byte
	order    []string
	finished []byte // cargo's last line, not passed on yet
	success  bool   // as it says
}

func NewStream(whole func([]byte)) *Stream {
	return &Stream{
		whole: whole, earlier: map[[32]byte]bool{}, now: map[[32]byte]bool{}, reported: map[string]bool{}, held: map[string][]byte{},
	}
}

// again begins another run of cargo. What was held back it says once more, where it is still so.
func (s *Stream) Again() {
	maps.Copy(s.earlier, s.now)
	s.now, s.held, s.order, s.finished = map[[32]byte]bool{}, map[string][]byte{}, nil, nil
}

// message takes one of cargo's messages.
func (s *Stream) Message(m cargo.Message) {
	switch m.Reason {
	case cargo.Finished:
		s.finished, s.success = append([]byte(nil), m.Raw...), m.Success
	case cargo.Artifact, cargo.ScriptExecuted:
		key := unitKey(m)
		switch {
		case s.reported[key]:
		case m.Reason == cargo.Artifact && !m.Fresh:
			delete(s.held, key)
			s.reported[key] = true
			s.whole(m.Raw)
		default:
			if s.held[key] == nil {
				s.order = append(s.order, key)
			}
			s.held[key] = append([]byte(nil), m.Raw...)
		}
	default:
		sum := sha256.Sum256(m.Raw)
		if s.now[sum] = true; !s.earlier[sum] {
			s.whole(m.Raw)
		}
	}
}

// unitKey names what a message is about.
func unitKey(m cargo.Message) string {
	if m.Reason == cargo.ScriptExecuted {
		m = cargo.Message{Reason: m.Reason, PackageID: m.PackageID, OutDir: m.OutDir}
	}
	m.Fresh = false
	key, err := json.Marshal(m)
	if err != nil {
		return string(m.Raw) // nothing in it that JSON did not bring
	}
	return string(key)
}

// end passes on what was held back, and cargo's last line, if it came to that. good is what the whole came to.
func (s *Stream) End(good bool) {
	for _, key := range s.order {
		if line := s.held[key]; line != nil {
			s.reported[key] = true
			s.whole(line)
		}
	}
	switch {
	case s.finished == nil:
	case s.success && !good:
		s.whole([]byte(`{"reason":"build-finished","success":false}`))
	default:
		s.whole(s.finished)
	}
	s.Again()
}

// start is the stdout of a cargo that starts what was built: what it says of
// the build was reported already, and after that its stdout is the program's.
func (s *Stream) Start(to io.Writer) io.Writer {
	w := &starting{to: to}
	w.messages = &cargo.LineWriter{
		Each: func(m cargo.Message) {
			switch {
			case w.started: // of the program's own
				_, _ = to.Write(append(append([]byte(nil), m.Raw...), '\n'))
			case m.Reason == cargo.Finished && m.Success:
				w.started = true
			case m.Reason == cargo.Finished:
				s.Message(m)
				s.End(false)
			default:
				s.Message(m)
			}
		},
		Other: func(b []byte) { _, _ = to.Write(b) },
	}
	return w
}

type starting struct {
	to       io.Writer
	messages *cargo.LineWriter
	started  bool
}

func (w *starting) Write(p []byte) (int, error) {
	if w.started {
		return w.to.Write(p)
	}
	n, err := w.messages.Write(p)
	if w.started { // the beginning of a line of the program's must not wait
		_ = w.messages.Close()
	}
	return n, err
}
