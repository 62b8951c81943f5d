package receipt

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
	"gpubuild/gpu"
	"gpubuild/gpu/probe"
	"gpubuild/gpu/verify"
)

const uuid = "GPU-11111111-2222-3333-4444-555555555555"

func real(verify.Loaded) (bool, string) { return true, "" }

// proven is a receipt of an orderly proof.
func proven(t testing.TB) Receipt {
	t.Helper()
	loaded := verify.Loaded{LibCUDA: "/usr/lib/libcuda.so.1", Real: "/usr/lib/libcuda.so.580.65.06", Version: "580.65.06", Module: "580.65.06", Nodes: []string{"/dev/nvidia0"}}
	e := verify.Evidence{
		Schema: 1, Binary: "/x/app", Args: []string{"--size", "64", "\xff"}, Ran: true,
		Control: verify.Control{Outcome: verify.ControlRecorded, Device: "H200", UUID: uuid, Loaded: loaded, Real: true},
		Watch:   verify.Watch{Pid: 7, Started: 99, Complete: true},
		Processes: []verify.Process{{Self: true, Real: true, Loaded: loaded, Process: probe.Process{
			Identity: probe.Identity{Pid: 7, Started: 99, Exe: "/x/app"}, Recording: true, LibCUDA: loaded.LibCUDA,
			Devices: []probe.Device{{UUID: uuid, Name: "H200", Capability: gpu.Capability{Major: 9}}},
			Kernels: []probe.Kernel{{Name: "matmul", Count: 3, Total: 3000, Start: 1, End: 9000, Waited: 3}},
			End:     &probe.End{Kernels: 3, Accepted: 3, Exited: true},
		}}},
	}
	rules := verify.Rules{}
	env := buildenv.Env{}.Set("CUDA_VISIBLE_DEVICES", "0").Set("API_TOKEN", "hunter2").Set("LD_LIBRARY_PATH", "/x/lib")
	return New("devel", Binary{Path: "/x/app", Size: 10, SHA256: "abc"}, env, "source", Ask(rules, false), e, verify.Judge(e, rules))
}

func written(t testing.TB, r Receipt) []byte {
	return hosttest.Must(r.Encode())(t)
}

func TestAReceiptHolds(t *testing.T) {
	data := written(t, proven(t))
	r := hosttest.Must(Decode(data))(t)
	if wrong := r.Check("abc", 10, real); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
	if r.Verdict.Kind != verify.Proved || r.Device != uuid+" H200" || r.Driver != "580.65.06" {
		t.Errorf("%+v", r)
	}
	if strings.Contains(string(data), "hunter2") || strings.Contains(string(data), "API_TOKEN") {
		t.Error("a secret of the environment stands in the receipt")
	}
	if want := map[string]string{"CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": Hidden([]string{"/x/lib"})[0]}; !reflect.DeepEqual(r.Environment, want) {
		t.Errorf("%v", r.Environment)
	}
}

// TestVerifyFiles: the binary and what was used with it are the files that they were, as far as they are to be here.
func TestVerifyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) Binary {
		path := filepath.Join(dir, name)
		hosttest.OK(t, os.WriteFile(path, []byte(name), 0o600))
		sealed, err := Seal(path)
		if err != nil || sealed.Size != int64(len(name)) || len(sealed.SHA256) != 64 {
			t.Fatalf("%+v, %v", sealed, err)
		}
		return Binary{Path: path, Size: sealed.Size, SHA256: sealed.SHA256}
	}
	app, child, gone := file("app"), file("child"), file("gone")
	hosttest.OK(t, os.Remove(gone.Path))
	sent, there, other, dir2 := gone, gone, child, child
	sent.Sent, there.Host, other.SHA256 = true, "node1", app.SHA256
	dir2.Sent, dir2.Path = true, dir
	for _, tt := range []struct {
		story, binary, also string
		with                []Binary
	}{
		{"all as they were", app.Path, "", []Binary{child}},
		{"another binary", child.Path, "SHA-256", nil},
		{"no binary", gone.Path, "could not be looked at", nil},
		{"a child that is another one", app.Path, "is another one", []Binary{other}},
		{"a child that is gone", app.Path, "used with it, could not be looked at", []Binary{gone}},
		{"data that was sent and is gone", app.Path, "", []Binary{sent}},
		{"what was sent is a directory now", app.Path, "could not be looked at", []Binary{dir2}},
		{"a file of another machine", app.Path, "", []Binary{there}},
	} {
		r := proven(t)
		r.Binary, r.UsedFiles, r.Evidence.Binary, r.Command[0] = app, tt.with, app.Path, app.Path
		seal(t, &r)
		all := func(verify.Evidence) func(verify.Loaded) (bool, string) { return real }
		wrong, _ := Verify(r, tt.binary, true, all)
		if text := strings.Join(wrong, "\n"); (text != "") != (tt.also != "") || !strings.Contains(text, tt.also) {
			t.Errorf("%s: %q", tt.story, wrong)
		}
		if own, _ := Verify(r, tt.binary, false, all); len(own) > len(wrong) != (tt.binary == gone.Path) {
			t.Errorf("%s, the receipt's own path: %q", tt.story, own)
		}
	}
	none := Unproven("devel", Binary{}, buildenv.Env{})
	seal(t, &none)
	if wrong, _ := Verify(none, app.Path, true, func(verify.Evidence) func(verify.Loaded) (bool, string) { return real }); len(wrong) != 1 {
		t.Errorf("of no program: %q", wrong)
	}
}

// TestAsked: what is asked of a run is the same when it is read back.
func TestAsked(t *testing.T) {
	for _, a := range []Asked{{Expect: "gpu"}, {Expect: "cpu", Kernel: "^mm", Device: "1", Child: "worker", ExpectExit: 3, MinLaunches: 2, MinTime: 5, MinChildren: 4}} {
		if r, err := a.Rules(); err != nil || (r.Kernel != nil) != (a.Kernel != "") || Ask(r, a.Expect == "cpu") != a {
			t.Errorf("%+v: %+v, %v", a, r, err)
		}
	}
	if Hidden(nil) != nil {
		t.Error("no arguments have a hash")
	}
	r := New("devel", Binary{}, buildenv.Env{}.Set("LD_PRELOAD", ""), "", Asked{}, verify.Evidence{}, verify.Verdict{})
	if value, is := r.Environment["LD_PRELOAD"]; !is || value != "" {
		t.Errorf("an empty variable: %q, %v", value, is)
	}
}

// TestOf: a binary's receipt in a file of several is its own, and the first where there are two, or none.
func TestOf(t *testing.T) {
	of := func(sum, device string) Receipt { return Receipt{Binary: Binary{SHA256: sum}, Device: device} }
	whole := of("a", "first")
	whole.More = []Receipt{of("a", "again"), of("b", "second"), of("c", "third")}
	for sum, want := range map[string]string{"a": "first", "b": "second", "c": "third", "x": "first"} {
		hosttest.Equal(t, whole.Of(sum).Device, want, sum, "the")
	}
}

// seal gives a tampered receipt a sum that fits, as somebody would who knows how.
func seal(t *testing.T, r *Receipt) {
	t.Helper()
	var err error
	if r.Sum, err = r.sum(); err != nil {
		t.Fatal(err)
	}
}

// TestWordsOfToday: what a verdict says in words is compared with nothing, so what is shown is what the evidence gives today.
func TestWordsOfToday(t *testing.T) {
	r := proven(t)
	said := r.Verdict.Lines
	r.Verdict.Lines, r.Verdict.Notes = []string{"audited by NVIDIA"}, []string{"signed"}
	r = hosttest.Must(Decode(written(t, r)))(t)
	d := Demand{Real: func(verify.Evidence) func(verify.Loaded) (bool, string) { return real }}
	got := hosttest.Must(d.Check(t.Context(), buildenv.Host{}, nil, "r.json", r))(t)
	hosttest.Equal(t, strings.Join(append(got.Verdict.Lines, got.Verdict.Notes...), "\n"), strings.Join(said, "\n"), "")
}

func TestTampering(t *testing.T) {
	standin := func(l verify.Loaded) (bool, string) { return false, "this driver is a stand-in" }
	for _, tt := range []struct {
		story  string
		change func(*Receipt)
		sum    string
		size   int64
		real   func(verify.Loaded) (bool, string)
		sealed bool // the sum was made to fit
		want   string
	}{
		{"another binary", nil, "abd", 10, real, false, "the binary is another one"},
		{"a longer binary", nil, "abc", 11, real, false, "the binary is another one"},
		{"the verdict was a stand-in's", nil, "abc", 10, standin, false, "the evidence shows unproved: this driver is a stand-in"},
		{"a careless edit", func(r *Receipt) { r.Gpubuild = "v9" }, "abc", 10, real, false, "its sum does not fit"},
		{"no sum", func(r *Receipt) { r.Sum = "" }, "abc", 10, real, false, "its sum does not fit"},
		{"it was not proven", func(r *Receipt) { r.Evidence.Processes = nil }, "abc", 10, real, true, "the receipt says proved"},
		{"it failed", func(r *Receipt) { r.Evidence.Exit.Code = 1 }, "abc", 10, real, true, "status 1, expected was 0"},
		{"a failure was expected afterwards", func(r *Receipt) { r.Asked.ExpectExit = 1 }, "abc", 10, real, true, "status 0, expected was 1"},
		{"more launches", func(r *Receipt) { r.Verdict.Launches = 30 }, "abc", 10, real, true, "launches that match: 3, of 3000 ns together; the receipt says 30"},
		{"more time", func(r *Receipt) { r.Verdict.Total++ }, "abc", 10, real, true, "of 3000 ns together; the receipt says 3, of 3001 ns"},
		{"another device", func(r *Receipt) { r.Device = uuid + " B200" }, "abc", 10, real, true, "its verdict speaks of the device " + uuid + " H200; the receipt says " + uuid + " B200"},
		{"another device's name", func(r *Receipt) { r.Verdict.Device = "B200" }, "abc", 10, real, true, "the device is " + uuid + " H200; the receipt says " + uuid + " B200"},
		{"another device", func(r *Receipt) { r.Verdict.UUID = "GPU-x" }, "abc", 10, real, true, "the device is " + uuid},
		{"other kernels", func(r *Receipt) { r.Verdict.Kernels[0].Name = "gemm" }, "abc", 10, real, true, "the kernels are others"},
		{"a conflict was left out", func(r *Receipt) { r.Evidence.Conflicts = []verify.Conflict{{What: "NSYS_X is set"}} }, "abc", 10, real, true, "the conflicts are others"},
		{"another kernel was asked for", func(r *Receipt) { r.Asked.Kernel = "^relu$" }, "abc", 10, real, true, "judged again"},
		{"more launches were asked for", func(r *Receipt) { r.Asked.MinLaunches = 1000 }, "abc", 10, real, true, "at least 1000 are asked for"},
		{"more time was asked for", func(r *Receipt) { r.Asked.MinTime = time.Hour }, "abc", 10, real, true, "--min-gpu-time"},
		{"a regular expression that is none", func(r *Receipt) { r.Asked.Kernel = "(" }, "abc", 10, real, true, "cannot be read"},
		{"nothing was expected", func(r *Receipt) { r.Asked.Expect = "" }, "abc", 10, real, true, "cannot be read"},
		{"the CPU was expected", func(r *Receipt) { r.Asked.Expect = "cpu" }, "abc", 10, real, true, "it shows `proved`, where `not used` was expected"},
		{"evidence of another program", func(r *Receipt) { r.Evidence.Binary = "/x/other" }, "abc", 10, real, true, "of another command: /x/other"},
		{"other arguments", func(r *Receipt) { r.Command = []string{"/x/app"} }, "abc", 10, real, true, "of another command"},
		{"an unproved receipt says so", func(r *Receipt) {
			r.Evidence.Control.Outcome = verify.ControlMissing
			r.Verdict = verify.Judge(r.Evidence, verify.Rules{})
		}, "abc", 10, real, true, "it shows `unproved`, where `proved` was expected"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			r := hosttest.Must(Decode(written(t, proven(t))))(t)
			if tt.change != nil {
				tt.change(&r)
			}
			if tt.sealed {
				seal(t, &r)
			}
			wrong := strings.Join(r.Check(tt.sum, tt.size, tt.real), "\n")
			if !strings.Contains(wrong, tt.want) {
				t.Errorf("got %q, want …%s…", wrong, tt.want)
			}
			if tt.sealed && strings.Contains(wrong, "sum does not fit") {
				t.Errorf("the sum was made to fit: %q", wrong)
			}
		})
	}
}

func TestWhatIsNoReceipt(t *testing.T) {
	good := string(written(t, proven(t)))
	for _, tt := range []struct {
		story, text, want string
		schema            bool
	}{
		{"nothing", "", "damaged", false},
		{"cut", good[:len(good)/2], "damaged", false},
		{"something behind it", good + "{}", "damaged", false},
		{"an unknown key", strings.Replace(good, `"gpubuild":`, `"signed": true, "gpubuild":`, 1), "damaged: json: unknown field", false},
		{"a verdict that is none", strings.Replace(good, `"kind": "proved"`, `"kind": "certain"`, 1), "is not a verdict", false},
		{"the next schema", strings.Replace(good, Schema, "gpubuild/receipt/2", 1), "has the schema \"gpubuild/receipt/2\"; this gpubuild reads " + Schema, true},
		{"another answer of gpubuild", `{"schema":"gpubuild/prove/1"}`, "no receipt", true},
		{"a schema that is no text", `{"schema": 3}`, "damaged", true},
		{"no schema", `{}`, "it has no schema", true},
	} {
		t.Run(tt.story, func(t *testing.T) {
			_, err := Decode([]byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "schema") != tt.schema {
				t.Errorf("%T %v, want …%s…", err, err, tt.want)
			}
			if h, ok := err.(interface{ Hint() string }); !ok || h.Hint() == "" {
				t.Error("no hint")
			}
		})
	}
}

// TestKeysAreExact: encoding/json takes "Changed" for changed, and of two keys the last.
func TestKeysAreExact(t *testing.T) {
	r := proven(t)
	r.Evidence.Changed, r.Time = true, time.Unix(1700000000, 0).UTC()
	data := string(written(t, r))
	if got, err := Decode([]byte(data)); err != nil || !got.Evidence.Changed || !got.Time.Equal(r.Time) {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, tt := range []struct{ story, from, to string }{
		{"another case", `"changed": true`, `"changed": true, "Changed": false`},
		{"in place of the key", `"verdict": {`, `"Verdict": {`},
		{"twice, the second empties it", `"changed": true`, `"changed": true, "changed": false`},
		{"twice, the same", `"changed": true`, `"changed": true, "changed": true`},
		{"twice, the key escaped", `"changed": true`, `"changed": true, "chan\u0067ed": true`},
		{"twice, at the end of the file", `"sum": "`, `"sum": "abc", "sum": "`},
		{"within a list, twice", `"recording": true`, `"recording": true, "recording": true`},
		{"within a list", `"recording": true`, `"recording": true, "Recording": true`},
	} {
		changed := strings.Replace(data, tt.from, tt.to, 1)
		if _, err := Decode([]byte(changed)); changed == data || err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", tt.story, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(written(f, proven(f)))
	f.Add([]byte(`{"schema":"gpubuild/receipt/1","evidence":{"processes":[{}]},"asked":{"mode":"prove","expect":"gpu"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode(data)
		if err != nil {
			return
		}
		none := func(verify.Loaded) (bool, string) { return false, "no driver is real" }
		if len(r.Check(r.Binary.SHA256, r.Binary.Size, none)) == 0 {
			t.Errorf("a receipt holds although no driver is real: %s", data)
		}
		if again, err := json.Marshal(r); err != nil || len(again) == 0 {
			t.Error(err)
		}
	})
}

// TestNoReceipt: JSON that is something else is no receipt, and not a damaged one.
func TestNoReceipt(t *testing.T) {
	for _, text := range []string{"[]", "3", `"receipt"`, "{}"} {
		if _, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), "no receipt") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// unproven is a receipt of a program that was built and not run.
func unproven() Receipt {
	e := verify.Evidence{Schema: 1, Binary: "/x/other"}
	rules := verify.Rules{}
	return New("devel", Binary{Path: "/x/other", Size: 3, SHA256: "def"}, buildenv.Env{}, "", Ask(rules, false), e, verify.Judge(e, rules))
}

func TestReceiptsOfARun(t *testing.T) {
	whole := proven(t)
	whole.Result = []byte("{\n  \"schema\": \"gpubuild/run/1\",  \"n\": 1.50, \"s\": \"<é\\u2028\"\n}\n")
	whole.More = []Receipt{unproven()}
	data := written(t, whole)
	for _, tt := range []struct {
		story, sum string
		size       int64
		edit       func(string) string
		want       string // empty: it holds
	}{
		{"the first program", "abc", 10, nil, ""},
		{"the second was not run", "def", 3, nil, "it shows `unproved`, where `proved` was expected: the program was not run"},
		{"neither", "xyz", 10, nil, "the binary is another one"},
		{"the second's length", "def", 4, nil, "the binary is another one"},
		{"the result was edited", "abc", 10, func(s string) string { return strings.Replace(s, "1.50", "2.50", 1) }, "its sum does not fit"},
		{"the second was edited", "abc", 10, func(s string) string { return strings.Replace(s, `"def"`, `"dea"`, 1) }, "its sum does not fit"},
		{"the second was taken out", "abc", 10, func(s string) string {
			return s[:strings.Index(s, `,`+"\n"+`  "more"`)] + s[strings.Index(s, `,`+"\n"+`  "sum"`):]
		}, "its sum does not fit"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			text := string(data)
			if tt.edit != nil {
				if text = tt.edit(text); text == string(data) {
					t.Fatal("nothing was edited")
				}
			}
			r := hosttest.Must(Decode([]byte(text)))(t)
			wrong := strings.Join(r.Check(tt.sum, tt.size, real), "\n")
			if (wrong == "") != (tt.want == "") || !strings.Contains(wrong, tt.want) {
				t.Errorf("%q, want %q", wrong, tt.want)
			}
		})
	}
	none := unproven()
	none.Binary, none.Evidence.Binary, none.Command = Binary{}, "", []string{""}
	r := hosttest.Must(Decode(written(t, none)))(t)
	if wrong := r.Check("", 0, real); len(wrong) != 1 || !strings.Contains(wrong[0], "of no program") {
		t.Errorf("%q", wrong)
	}
}

// TestFromTheFuture: clocks differ by minutes, and no more.
func TestFromTheFuture(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]string{0: "", -time.Hour: "", 10 * time.Minute: "", 11 * time.Minute: "it is dated in the future: 2026-11-28T12:11:00Z"} {
		hosttest.Equal(t, Receipt{Time: now.Add(after)}.FromTheFuture(now), want, "a receipt of", after)
		hosttest.Equal(t, Receipt{Time: now, More: []Receipt{{}, {Time: now.Add(after)}}}.FromTheFuture(now), want, "a file with a receipt of", after)
	}
	hosttest.Equal(t, Receipt{}.FromTheFuture(now), "", "a receipt without a time")
}
