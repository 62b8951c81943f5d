// Package receipt owns the file that says what one proof showed: gpubuild/receipt/1.
//
// A receipt joins a binary, by its SHA-256, with the evidence of one run of it, the rules that it was judged by and the verdict. Check
// decides whether a receipt still says what it says: that it is whole, that the binary is that one, and that today's rules, applied to
// the stored evidence, come to the same verdict. It writes nothing and starts nothing, and reads only the binary.
//
// Its sum finds damage and careless edits; whoever can write the file can also write the sum, so trust a receipt only as far as the
// channel that delivered it, or its signature, which ssh-keygen makes and verifies. It holds a hash of the program's arguments, unless
// the user wants them stored, and of the environment only Allowed.
package receipt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/origin"
	"gpubuild/gpu/verify"
)

// Schema names the format that this package reads and writes.
const Schema = "gpubuild/receipt/1"

// Family begins the schema of every version of receipts.
const Family = "gpubuild/receipt/"

// Limit is the size up to which a receipt is read: evidence is bounded, and so is this.
const Limit = 64 << 20

// Allowed lists the variables that a receipt may hold; no other one of the environment stands in it.
func Allowed() []string {
	return []string{
		"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING", "CUDA_LAUNCH_BLOCKING", "CUDA_CACHE_DISABLE",
		"CUDA_FORCE_PTX_JIT",
		"CUDA_INJECTION64_PATH", "VK_INSTANCE_LAYERS", "VK_DRIVER_FILES", "VK_ICD_FILENAMES",
		"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT",
	}
}

// Binary is the file that was proven.
type Binary struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Code   string `json:"code,omitempty"` // what device code it holds, in a line
	Host   string `json:"host,omitempty"` // the other machine that the file is on, with --on: it was not sent there
	Sent   bool   `json:"sent,omitempty"` // the file was sent there for the program to read (--send)
}

// Asked is what was asked of the run, as plain data.
type Asked struct {
	Expect     string `json:"expect"`           // gpu or cpu
	Kernel     string `json:"kernel,omitempty"` // a regular expression; empty: the patterns of gpubuild
	Device     string `json:"device,omitempty"`
	Child      string `json:"child,omitempty"`
	ExpectExit int    `json:"expect_exit"`

	MinLaunches uint64        `json:"min_launches,omitempty"`
	MinTime     time.Duration `json:"min_gpu_time_ns,omitempty"`
	MinChildren int           `json:"min_children,omitempty"`
}

// Ask makes plain data of rules.
func Ask(r verify.Rules, cpu bool) Asked {
	a := Asked{Expect: "gpu", Device: r.Device, Child: r.Child, ExpectExit: r.ExpectExit,
		MinLaunches: r.MinLaunches, MinTime: r.MinTime, MinChildren: r.MinChildren}
	if cpu {
		a.Expect = "cpu"
	}
	if r.Kernel != nil {
		a.Kernel = r.Kernel.String()
	}
	return a
}

// Rules makes rules of the plain data, with the patterns of today.
func (a Asked) Rules() (verify.Rules, error) {
	r := verify.Rules{Device: a.Device, Child: a.Child, ExpectExit: a.ExpectExit,
		MinLaunches: a.MinLaunches, MinTime: a.MinTime, MinChildren: a.MinChildren}
	if a.Expect != "gpu" && a.Expect != "cpu" {
		return r, fmt.Errorf("%.200q was expected, which is neither gpu nor cpu", a.Expect)
	}
	var err error
	if a.Kernel != "" {
		r.Kernel, err = regexp.Compile(a.Kernel)
	}
	return r, err
}

// Receipt is what one proof showed.
type Receipt struct {
	Schema      string            `json:"schema"`
	Gpubuild    string            `json:"gpubuild"`      // the version that wrote it
	Time        time.Time         `json:"time,omitzero"` // when the run began, in UTC
	Verdict     verify.Verdict    `json:"verdict"`
	Binary      Binary            `json:"binary"`
	UsedFiles   []Binary          `json:"also,omitempty"`   // children whose kernels count, scripts of interpreters, files of --send
	Origin      *origin.Origin    `json:"origin,omitempty"` // the commit, the run of CI, and the hash of the machine's name
	Command     []string          `json:"command"`
	Test        string            `json:"test,omitempty"`    // the one that the arguments choose
	Backend     string            `json:"backend,omitempty"` // vulkan; empty: CUDA
	Device      string            `json:"device,omitempty"`  // UUID and name that the verdict speaks of
	Driver      string            `json:"driver,omitempty"`
	Probe       string            `json:"probe,omitempty"` // SHA-256 of the probe's sources; empty: it was built elsewhere
	Asked       Asked             `json:"asked"`
	Environment map[string]string `json:"environment"`
	Evidence    verify.Evidence   `json:"evidence"`
	// Result is the answer of the run that wrote it, as --json has it: features, set, checks, row, time.
	Result json.RawMessage `json:"result,omitempty"`
	More   []Receipt       `json:"more,omitempty"` // of the run's other programs; none of these has a result, a sum or more
	Sum    string          `json:"sum"`            // SHA-256 of the receipt with an empty sum
}

// Hidden replaces a program's arguments where these are not stored: one string, their SHA-256; nothing for no arguments.
func Hidden(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	sum := sha256.New()
	for _, a := range args {
		fmt.Fprintf(sum, "%d:%s", len(a), a)
	}
	return []string{"sha256:" + hex.EncodeToString(sum.Sum(nil))}
}

// hashed are the variables of which a receipt has the SHA-256: their values name directories of the user.
var hashed = []string{"LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "CUDA_INJECTION64_PATH", "VK_DRIVER_FILES", "VK_ICD_FILENAMES"}

// New makes a receipt. Of the environment it takes what is allowed.
func New(version string, b Binary, env buildenv.Env, probe string, asked Asked, e verify.Evidence, v verify.Verdict) Receipt {
	r := Receipt{
		Schema: Schema, Gpubuild: version, Verdict: v, Binary: b, Command: append([]string{b.Path}, e.Args...), Probe: probe,
		Backend: string(e.Backend), Driver: e.Control.Loaded.Version, Asked: asked, Environment: map[string]string{}, Evidence: e,
	}
	r.Device = deviceOf(v)
	for _, name := range Allowed() {
		if value, ok := env.Lookup(name); ok {
			if value != "" && slices.Contains(hashed, name) {
				value = Hidden([]string{value})[0]
			}
			r.Environment[name] = value
		}
	}
	return r
}

// Encode writes a receipt with its sum.
func (r Receipt) Encode() ([]byte, error) {
	// What a reader will have is summed up: bytes that are no text, as an argument may hold, do not survive JSON.
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	r = Receipt{}
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	sum, err := r.sum()
	if err != nil {
		return nil, err
	}
	r.Sum = sum
	data, err = json.MarshalIndent(r, "", "  ")
	return append(data, '\n'), err
}

func (r Receipt) sum() (string, error) {
	r.Sum = ""
	data, err := json.Marshal(r)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}

// otherSchema says that a file is no receipt that this gpubuild can read.
func otherSchema(found string) error {
	const fix = "receipts are written by `gpubuild prove --receipt FILE`"
	switch {
	case found == "":
		return exit.Errorf(exit.Usage, fix, "this file is no receipt: it has no schema")
	case !strings.HasPrefix(found, Family):
		return exit.Errorf(exit.Usage, fix, "this file is no receipt: its schema is %.60q, not %s", found, Schema)
	}
	return exit.Errorf(exit.Usage, "verify it with the gpubuild that wrote it, or prove the binary again",
		"this receipt has the schema %.60q; this gpubuild reads %s", found, Schema)
}

func damaged(err error) error {
	return exit.Errorf(exit.Usage, "prove the binary again", "this receipt is damaged: %w", err)
}

// Decode reads a receipt. The schema is looked at first; then nothing that this schema does not know is accepted.
func Decode(data []byte) (Receipt, error) {
	var head struct {
		Schema string `json:"schema"`
	}
	var other *json.UnmarshalTypeError
	switch err := json.Unmarshal(data, &head); {
	case errors.As(err, &other) && other.Field == "":
		return Receipt{}, otherSchema("")
	case err != nil:
		return Receipt{}, damaged(err)
	}
	if head.Schema != Schema {
		return Receipt{}, otherSchema(head.Schema)
	}
	var r Receipt
	if err := Strict(data, &r); err != nil {
		return Receipt{}, damaged(err)
	}
	return r, nil
}

// Of returns the receipt of the binary with that SHA-256 among those of a file, or the file's first.
func (r Receipt) Of(sum string) Receipt {
	for _, m := range r.More {
		if m.Binary.SHA256 == sum && r.Binary.SHA256 != sum {
			return m
		}
	}
	return r
}

// Check returns what keeps a receipt from being believed; nothing means that it holds. Of several receipts in one file the binary's is
// judged. sum is the SHA-256 of the binary at hand, and real the predicate that says of a stored driver whether it is real.
func (r Receipt) Check(sum string, size int64, real func(verify.Loaded) (bool, string)) []string {
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if !r.Intact() {
		add("the receipt was changed after it was written: its sum does not fit")
	}
	r = r.Of(sum)
	if r.Binary.Path == "" {
		add("it is of no program: the build made none, or failed")
		return wrong
	}
	if sum != r.Binary.SHA256 || size != r.Binary.Size {
		add("the binary is another one: SHA-256 %.16s… (%d bytes), the receipt is of %.16s… (%d bytes)", sum, size, r.Binary.SHA256,
			r.Binary.Size)
	}
	_, more := r.Recheck(real)
	return append(wrong, more...)
}

// FromTheFuture says that a receipt, or one of the others in its file, is dated later than now, which no clock that is right by minutes
// writes; empty: none is.
func (r Receipt) FromTheFuture(now time.Time) string {
	for _, one := range append([]Receipt{r}, r.More...) {
		if one.Time.Sub(now) > 10*time.Minute {
			return "it is dated in the future: " + one.Time.UTC().Format(time.RFC3339)
		}
	}
	return ""
}

// Intact reports whether a file's receipt is as it was written.
func (r Receipt) Intact() bool {
	now, err := r.sum()
	return err == nil && now == r.Sum
}

// Recheck returns what the evidence shows today, with today's words, and what keeps a receipt from being believed by its own evidence;
// which binary it is of, and whether the file was changed, is Check's matter.
func (r Receipt) Recheck(real func(verify.Loaded) (bool, string)) (v verify.Verdict, wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if r.Evidence.Binary != r.Binary.Path || !slices.Equal(r.Command, append([]string{r.Binary.Path}, r.Evidence.Args...)) {
		add("the evidence is of another command: %s", strings.Join(append([]string{r.Evidence.Binary}, r.Evidence.Args...), " "))
	}
	rules, err := r.Asked.Rules()
	v = verify.Judge(verify.Reconsider(r.Evidence, real), rules)
	if err != nil {
		add("what was asked cannot be read: %v", err)
		return v, wrong
	}
	if difference := differs(r.Verdict, v); difference != "" {
		add("judged again, %s", difference)
	}
	if r.Device != deviceOf(r.Verdict) {
		add("its verdict speaks of the device %s; the receipt says %s", deviceOf(r.Verdict), r.Device)
	}
	r.Verdict.Kind, r.Verdict.Why = v.Kind, v.Why
	if unexpected := r.Unexpected(); unexpected != "" {
		wrong = append(wrong, unexpected)
	}
	return v, wrong
}

func deviceOf(v verify.Verdict) string { return strings.TrimSpace(v.UUID + " " + v.Device) }

// Unexpected says that a receipt shows something else than its run was to show.
func (r Receipt) Unexpected() string {
	want := verify.Proved
	if r.Asked.Expect == "cpu" {
		want = verify.NotUsed
	}
	if r.Verdict.Kind == want {
		return ""
	}
	return fmt.Sprintf("it shows `%s`, where `%s` was expected%s", r.Verdict.Kind, want, because(r.Verdict.Why))
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// differs compares what two verdicts claim; how they word it may change with the version.
func differs(old, now verify.Verdict) string {
	switch {
	case old.Kind != now.Kind:
		return fmt.Sprintf("the evidence shows %s%s; the receipt says %s", now.Kind, because(now.Why), old.Kind)
	case old.UUID != now.UUID || old.Device != now.Device:
		return fmt.Sprintf("the device is %s %s; the receipt says %s %s", now.UUID, now.Device, old.UUID, old.Device)
	case old.Launches != now.Launches || old.Total != now.Total:
		return fmt.Sprintf("launches that match: %d, of %d ns together; the receipt says %d, of %d ns", now.Launches, now.Total,
			old.Launches, old.Total)
	case !slices.Equal(old.Kernels, now.Kernels):
		return "the kernels are others than the receipt says"
	case !slices.Equal(old.Conflicts, now.Conflicts):
		return "the conflicts are others than the receipt says"
	}
	return ""
}

// Strict decodes one JSON value that gpubuild wrote. Only white space may be another: a key that is there twice, in another case or
// unknown, of which encoding/json takes what it likes, would not be written back as it is.
func Strict[T any](data []byte, to *T) error {
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	if err := in.Decode(to); err != nil {
		return err
	}
	var is bytes.Buffer
	again, err := json.Marshal(to)
	if err = errors.Join(err, json.Compact(&is, data)); err != nil {
		return err
	}
	if !bytes.Equal(is.Bytes(), again) {
		return errors.New("it is not as gpubuild writes it: another tool wrote it again, or a key is unknown, there twice or in another place")
	}
	return nil
}
