package ci

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/cmd/internal/archive"
	"gpubuild/cmd/internal/origin"
	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/probe"
	"gpubuild/toolchain"
	"gpubuild/toolchain/install/tree"
)

// ProveOptions say how an archive is proven.
type ProveOptions struct {
	Row     string
	Results string    // directory that gets the receipt and the JUnit file
	CUPTI   string    // of the machine that proves, in place of the archive's
	Words   []string  // the command line
	Out     io.Writer // what the program prints
}

// Prove proves the program of an archive, on this machine or where the row's wrapper leads. It needs no project, Rust, toolkit or source.
func Prove(ctx context.Context, m *session.Machine, file string, o ProveOptions) error {
	if _, err := m.Host.Files.Stat(m.Host.Abs(file)); errors.Is(err, fs.ErrNotExist) {
		return &exit.UsageError{What: m.Shown(file) + " does not exist", Fix: "gpubuild ci archive ROW"}
	}
	if o.Row == "" {
		fix := "gpubuild ci prove " + buildenv.PosixWords(file) + " --row ROW"
		return &exit.UsageError{What: "`gpubuild ci prove` needs --row", Fix: fix}
	}
	man, err := archive.Read(m.Host.Abs(file))
	if err != nil {
		return err
	}
	one, ok := man.Proof(o.Row)
	if !ok {
		var rows []string
		for _, p := range man.Proofs {
			rows = append(rows, p.Row)
		}
		return &exit.UsageError{What: fmt.Sprintf("%s is not made for row %q", m.Shown(file), o.Row),
			Fix: "name one of its rows: --row " + strings.Join(rows, ", --row ")}
	}
	of, err := originOf(m.Host, man, o.Row)
	if err != nil {
		return err
	}
	if err := m.MakeDir(o.Results); err != nil {
		return err
	}
	task := task{Row: o.Row, Origin: of, CUPTI: o.CUPTI}
	if len(one.Wrapper) > 0 {
		return proveElsewhere(ctx, m, file, man, one, task, o)
	}
	dir, remove, err := m.Temp.MkdirTemp("", "gpubuild-archive-")
	if err != nil {
		return err
	}
	defer remove()
	if man, err = archive.Unpack(m.Host.Abs(file), dir); err != nil {
		return err
	}
	return proveHere(ctx, m, dir, man, one, task, o)
}

// originOf is what a proof is of: the archive's commit and row, and the run of CI that proves it.
func originOf(h buildenv.Host, man archive.Manifest, row string) (origin.Origin, error) {
	of := man.Origin
	sum, err := man.Sum()
	if err != nil {
		return of, err
	}
	here, ci := origin.OfCI(h)
	if ci {
		if here.Commit != of.Commit && here.Commit != "" && of.Commit != "" {
			return of, exit.Errorf(exit.Unproved, "make the archive again: gpubuild ci run "+of.Row,
				"not proven: the archive is of commit %.12s, and this run is of %.12s", of.Commit, here.Commit)
		}
		of.Run, of.Attempt = here.Run, here.Attempt
	}
	of.Row, of.CompileRow, of.Archive = row, man.Origin.Row, sum
	return of, nil
}

// proveHere proves the unpacked program on this machine.
func proveHere(ctx context.Context, m *session.Machine, dir string, man archive.Manifest, one archive.Proof, t task, o ProveOptions) error {
	h := m.Host
	program := h.Join(dir, filepath.FromSlash(man.Program))
	asked := proof.Options{Args: one.Args, Required: true, ExpectExit: man.Asked.ExpectExit, Receipt: true,
		Probe: h.Join(dir, "probe", probe.LibraryName(h.OS))}
	if asked.CUPTI = t.CUPTI; asked.CUPTI == "" && man.CUPTI != "" {
		asked.CUPTI = h.Join(dir, filepath.FromSlash(man.CUPTI))
	}
	var err error
	if man.Asked.Kernel != "" {
		if asked.Kernel, err = regexp.Compile(man.Asked.Kernel); err != nil {
			return err
		}
	}
	there := *m // the machine as the program finds it: with the libraries that came with it, and a cache that goes with the archive
	if lib := h.Join(dir, "lib"); h.IsDir(lib) {
		there.Host.Env = h.Apply(h.Env, proof.AppendLibraries(h, lib))
	}
	there.CacheDir, there.Host.Cwd = h.Join(dir, "cache"), dir
	if err := os.Mkdir(there.CacheDir, 0o700); err != nil {
		return err
	}
	r, err := proof.File(ctx, &there, asked, program, o.Out)
	if err != nil {
		return err
	}
	result := report.OfProof(m, r.Proof, r.Scan, r.Outcome)
	result.Origin = &t.Origin
	result.Programs[0].Path = man.Program
	var receipts []receipt.Receipt
	if r.Proof.Receipt != nil {
		receipts = append(receipts, *r.Proof.Receipt)
	}
	return o.sink(m, true).FinishVerb(result, nil, receipts, r.Outcome)
}

// sink is where a proof's result goes; without a receipt it is an answer.
func (o ProveOptions) sink(m *session.Machine, receipt bool) *report.Sink {
	answer := m.Host.Join(o.Results, StepProve+".json")
	files := report.Files{JUnit: m.Host.Join(o.Results, StepProve+".xml")}
	if receipt {
		files.Receipt = answer
	} else {
		files.JSON = &answer
	}
	return report.NewSink(m, o.Words, files, false)
}

// task is the request that is sent to the machine that makes a proof.
type task struct {
	Row    string        `json:"row"`
	Origin origin.Origin `json:"origin"`
	CUPTI  string        `json:"cupti,omitempty"`
}

// Child is the word that gpubuild starts itself with behind a wrapper: NONCE TASK DIRECTORY follow.
const Child = "__gpubuild-ci"

// elsewhere unpacks the archive, which comes on stdin, and starts the gpubuild in it. Nothing stays behind.
const elsewhere = `d=$(mktemp -d) || exit 1
trap 'rm -rf "$d"' EXIT
trap 'exit 143' TERM INT HUP
tar -xf - -C "$d" || exit 1
"$d/gpubuild" ` + Child + ` %s %s "$d"`

// proveElsewhere runs the wrapper with a shell behind it, hands it the archive, and takes the results from its output. A wrapper's own exit
// status does not do: srun --kill-on-bad-exit=1 answers 143 for a task's 21, and one that started nothing may well answer 0.
func proveElsewhere(
	ctx context.Context, m *session.Machine, file string, man archive.Manifest, one archive.Proof, t task, o ProveOptions,
) error {
	wrapper := one.Wrapper[0]
	path, err := m.Host.LookPath(wrapper)
	if m.Host.IsAbs(wrapper) && m.Host.IsFile(wrapper) {
		path, err = wrapper, nil
	}
	if err != nil {
		return &toolchain.MissingError{What: wrapper + " on PATH, which is the wrapper of " + one.Row,
			Fix: "run this row where it is, or change wrapper in [[matrix.prove]]"}
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never an error
	nonce := hex.EncodeToString(random[:])
	request, err := json.Marshal(t)
	if err != nil {
		return err
	}
	words := []string{"sh", "-c", fmt.Sprintf(elsewhere, nonce, base64.RawURLEncoding.EncodeToString(request))}
	if name := strings.TrimSuffix(m.Host.Base(wrapper), ".exe"); name == "ssh" { // it joins its words, and a shell reads them there
		words = []string{buildenv.PosixWords(words...)}
	}
	in, err := os.Open(m.Host.Abs(file))
	if err != nil {
		return err
	}
	defer in.Close()
	m.Shell.Status("Sending", "%s to %s", tree.Size(man.Size()), OneLine(buildenv.PosixWords(one.Wrapper...)))
	listener := &resultFilter{out: o.Out, nonce: nonce}
	res, ran := m.Runner.Run(ctx, buildenv.Cmd{Path: path, Args: slices.Concat(one.Wrapper[1:], words), Env: m.Host.Env.Entries(),
		Stdin: in, Stdout: listener, Stderr: m.Shell.Err})
	listener.close()
	if interrupted(ran) {
		return ran
	}
	got := listener.results()
	for i, r := range got {
		if err := o.keep(m, i, r); err != nil {
			return err
		}
	}
	empty := slices.IndexFunc(got, func(d delivered) bool { return len(d.Files) == 0 }) // it was stopped there, or refused
	switch {
	case empty >= 0:
	case len(got) > 0 && got[0].Code != exit.Done:
		return exit.Code(got[0].Code)
	case len(got) > 0 && listener.cut == 0 && ran == nil:
		return nil
	case len(got) > 0 && listener.cut == 0:
		m.Shell.Error("%s ended with %d, although what came back is proven", wrapper, res.Code)
		return exit.Code(cmp.Or(res.Code, exit.Other))
	}
	code := cmp.Or(res.Code, exit.Unproved)
	why := fmt.Sprintf("%s ended with %d, and no result of a proof came back", wrapper, res.Code)
	switch {
	case empty >= 0:
		code = cmp.Or(got[empty].Code, exit.Unproved)
		why = fmt.Sprintf("gpubuild ended with %d where %s led, and made no proof", got[empty].Code, wrapper)
	case listener.cut > 0:
		why = fmt.Sprintf("%s ended with %d, and what came back of a proof is not whole", wrapper, res.Code)
	case res.Code == 0 && ran != nil:
		why = fmt.Sprintf("%s was not started: %v", wrapper, ran)
	}
	m.Shell.Loud("Not proven:", "%s", why)
	end := exit.Code(code)
	result := report.Result{Verb: "prove", Origin: &t.Origin, Programs: []report.Program{{Name: m.Host.Base(man.Program), Path: man.Program,
		Proof: &report.Proof{Verdict: report.Unproved, Why: why}}}}
	name := result.Programs[0].Name
	result.Checks = []report.Check{{ID: report.CheckProof, Name: name, State: report.Failed, Message: "not proven: " + why}}
	if f, ok := report.ProofFinding(result.Programs[0], true); ok {
		result.Findings = append(result.Findings, f)
	}
	return o.sink(m, false).FinishVerb(result, nil, nil, end)
}

// keep writes the files of a result that came back; those of further tasks go to the same directory.
func (o ProveOptions) keep(m *session.Machine, i int, r delivered) error {
	for name, data := range r.Files {
		if filepath.Base(name) != name {
			return exit.Errorf(exit.Unproved, "", "not proven: a file called %.40q came back", name)
		}
		if i > 0 {
			name = fmt.Sprintf("task%d-%s", i+1, name)
		}
		file := m.Host.Join(o.Results, name)
		if err := m.WriteFile(file, data, 0o644); err != nil {
			return err
		}
		m.Shell.Status("Received", "%s", m.Shown(m.Host.Abs(file)))
	}
	return nil
}

// delivered is the result of one task, as it comes back.
type delivered struct {
	Code  int               `json:"code"`
	Files map[string][]byte `json:"files"`
}

// Inside is the part of a proof that runs behind a wrapper. It writes the result among the program's output, for the part outside; finish
// prints an error and answers its code.
func Inside(ctx context.Context, m *session.Machine, words []string, finish func(error) int) error {
	var t task
	if len(words) != 3 {
		return &exit.UsageError{What: Child + " is not for people", Fix: "gpubuild ci prove ARCHIVE --row ROW"}
	}
	data, err := base64.RawURLEncoding.DecodeString(words[1])
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err != nil {
		return err
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never an error
	// A task that begins and never ends is one that was killed.
	head := fmt.Sprintf("gpubuild-ci %s %x", words[0], random)
	if err := m.Shell.Data("\n" + head + " begin 0 -\n"); err != nil {
		return err
	}
	results, remove, err := m.Temp.MkdirTemp("", "gpubuild-results-")
	if err != nil {
		return err
	}
	defer remove()
	err = func() error {
		man, err := archive.Verify(words[2])
		if err != nil {
			return err
		}
		one, ok := man.Proof(t.Row)
		if !ok {
			return &exit.UsageError{What: "the archive is not made for row " + t.Row}
		}
		o := ProveOptions{Row: t.Row, Results: results, Words: []string{"ci", "prove", "--row", t.Row}, Out: m.Shell.Out}
		return proveHere(ctx, m, words[2], man, one, t, o)
	}()
	out := delivered{Code: exit.Done, Files: map[string][]byte{}}
	var code exit.Code
	switch {
	case errors.As(err, &code):
		out.Code = int(code)
	case err != nil:
		out.Code = finish(err)
		err = exit.Code(out.Code)
	}
	for _, name := range []string{StepProve + ".json", StepProve + ".xml"} {
		data, read := os.ReadFile(filepath.Join(results, name))
		if errors.Is(read, os.ErrNotExist) {
			continue
		} else if read != nil {
			return read
		}
		out.Files[name] = data
	}
	text, encoded := out.lines(head)
	if wrote := errors.Join(encoded, m.Shell.Data(text)); wrote != nil {
		return wrote
	}
	return err
}

// lineData is how much of a result one line holds: srun --label puts its label between pieces of a line that is longer than 1024 bytes
// (slurm, src/common/eio and srun/libsrun/fname: MAX_MSG_LEN).
const lineData = 600

// lines are a result as lines of its own that begin with head: head data N PIECE, then head end N SHA256.
func (d delivered) lines(head string) (string, error) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if err := errors.Join(json.NewEncoder(z).Encode(d), z.Close()); err != nil {
		return "", err
	}
	text, n := base64.StdEncoding.EncodeToString(packed.Bytes()), 0
	var b strings.Builder
	b.WriteByte('\n') // whatever the program left unfinished
	for ; len(text) > 0; n++ {
		piece := text[:min(len(text), lineData)]
		text = text[len(piece):]
		fmt.Fprintf(&b, "%s data %d %s\n", head, n, piece)
	}
	fmt.Fprintf(&b, "%s end %d %x\n", head, n, sha256.Sum256(packed.Bytes()))
	return b.String(), nil
}

var resultLine = lazyregexp.New(`gpubuild-ci ([0-9a-f]{16}) ([0-9a-f]{8}) (begin|data|end) (\d{1,7}) (\S+)\s*$`)

// resultFilter passes on what a wrapper prints and takes results out of it. A wrapper may put words before a line (srun --label).
type resultFilter struct {
	out   io.Writer
	nonce string
	line  []byte
	blank bool // an empty line is held back: it may be the one before ours
	tasks []*arriving
	cut   int // results that did not come whole
}

// arriving is a result of which some lines came.
type arriving struct {
	task   string
	pieces map[int]string
	ended  bool
	count  int
	sum    string
}

func (f *resultFilter) Write(p []byte) (int, error) {
	f.line = append(f.line, p...)
	for {
		i := bytes.IndexByte(f.line, '\n')
		if i < 0 {
			return len(p), nil
		}
		if err := f.take(f.line[:i+1]); err != nil {
			return 0, err
		}
		f.line = f.line[i+1:]
	}
}

func (f *resultFilter) take(line []byte) error {
	if m := resultLine.FindSubmatch(line); m != nil && string(m[1]) == f.nonce {
		f.blank = false
		n, err := strconv.Atoi(string(m[4]))
		if err != nil {
			return err
		}
		f.piece(string(m[2]), string(m[3]), n, string(m[5]))
		return nil
	}
	if f.blank {
		f.blank = false
		if _, err := f.out.Write([]byte("\n")); err != nil {
			return err
		}
	}
	if len(bytes.TrimRight(line, "\r\n")) == 0 && len(line) > 0 {
		f.blank = true
		return nil
	}
	_, err := f.out.Write(line)
	return err
}

func (f *resultFilter) piece(task, kind string, n int, text string) {
	i := slices.IndexFunc(f.tasks, func(a *arriving) bool { return a.task == task })
	if i < 0 {
		i = len(f.tasks)
		f.tasks = append(f.tasks, &arriving{task: task, pieces: map[int]string{}})
	}
	switch kind {
	case "end":
		f.tasks[i].ended, f.tasks[i].count, f.tasks[i].sum = true, n, text
	case "data":
		f.tasks[i].pieces[n] = text
	}
}

// close passes on what is left without a line feed.
func (f *resultFilter) close() {
	if len(f.line) > 0 {
		_ = f.take(f.line) // a stdout that cannot be written to changes nothing about the result
	}
}

// results are those that came whole, the first that is not a success first.
func (f *resultFilter) results() []delivered {
	var out []delivered
	for _, a := range f.tasks {
		if d, ok := a.whole(); ok {
			out = append(out, d)
		} else {
			f.cut++
		}
	}
	slices.SortStableFunc(out, func(a, b delivered) int { return min(b.Code, 1) - min(a.Code, 1) })
	return out
}

func (a *arriving) whole() (delivered, bool) {
	var text strings.Builder
	for i := range a.count {
		text.WriteString(a.pieces[i])
	}
	data, err := base64.StdEncoding.DecodeString(text.String())
	if err != nil || !a.ended || fmt.Sprintf("%x", sha256.Sum256(data)) != a.sum {
		return delivered{}, false
	}
	var d delivered
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(z, 2*receipt.Limit)).Decode(&d)
	}
	return d, err == nil
}
