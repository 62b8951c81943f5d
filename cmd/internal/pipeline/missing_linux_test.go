package pipeline

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/hosttest"
	"gpubuild/buildenv/hosttest/need"
	"gpubuild/cmd/internal/proof"
	"gpubuild/gpu/verify"
)

// TestCodesOfAMissingProof reads the table of docs/exit-codes.md, and runs each of its command lines without a GPU, with and without a
// feature that needs one.
func TestCodesOfAMissingProof(t *testing.T) {
	t.Parallel()
	page := string(hosttest.Must(os.ReadFile(filepath.Join("..", "..", "..", "docs", "exit-codes.md")))(t))
	_, table, found := strings.Cut(page, "## A proof that is missing")
	if !found {
		t.Fatal("docs/exit-codes.md has no such table")
	}
	var columns []string
	lines := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case len(cells) < 3 || strings.Contains(line, "---"):
			continue
		case columns == nil:
			columns = cells
			continue
		}
		for _, words := range strings.Split(cells[0], ",") {
			words = strings.Trim(strings.TrimSpace(words), "`")
			for i, who := range columns[1:] {
				want := hosttest.Must(strconv.Atoi(strings.TrimSpace(cells[i+1])))(t)
				for _, asks := range askers(t, strings.TrimSpace(who)) {
					for _, feature := range []bool{true, false} {
						lines++
						asks.run(t, words, feature, want)
						if want != exit.Done {
							asks.allowed(t, words, feature, want)
						}
					}
				}
			}
		}
	}
	if lines < 100 {
		t.Errorf("only %d command lines were tried", lines)
	}
}

// asker is who asks for a proof, as a column of the table has it.
type asker struct {
	who    string
	o      proof.Options
	config string
	ci     bool
}

func askers(t *testing.T, who string) []asker {
	t.Helper()
	name, where, _ := strings.Cut(who, ", ")
	a := asker{who: who, ci: where == "in CI"}
	switch name {
	case "`--gpu-prove` or `--gpu-require-proof`":
		return []asker{{who: "--gpu-prove", o: proof.Options{Wanted: true}}, {who: "--gpu-require-proof", o: proof.Options{Required: true}},
			{who: "--gpu-prove in CI", o: proof.Options{Wanted: true}, ci: true}}
	case "`--gpu-expect cpu`":
		a.o.ExpectCPU, a.o.Files.Probe = true, hosttest.Must(os.Executable())(t) // nobody loads it: see worker.started
	case "`[prove]`":
		a.config = "[prove]\nexpect-exit = 0\n"
	case "a mark":
		a.config = "[test]\ngpu = [\"app\"]\n[bench]\ngpu = [\"app\"]\n"
	default:
		t.Fatalf("who is %q?", who)
	}
	return []asker{a}
}

func (a asker) run(t *testing.T, words string, feature bool, want int) {
	t.Helper()
	said, code := a.dispatch(t, words, feature)
	if code != want {
		t.Errorf("%s, %s, feature %v: exit code %d, want %d: %s", words, a.who, feature, code, want, said)
	}
	a.silent(t, words, feature, want, said)
}

// silent fails where a feature was forgotten, the exit code does not tell, and nothing was said.
func (a asker) silent(t *testing.T, words string, feature bool, want int, said string) {
	t.Helper()
	if !feature && want == exit.Done && !a.o.ExpectCPU && !strings.Contains(said, "this build enables no GPU feature") {
		t.Errorf("%s, %s: nothing says that a proof is missing: %s", words, a.who, said)
	}
}

// allowed tries the same with --gpu-allow-no-device.
func (a asker) allowed(t *testing.T, words string, feature bool, want int) {
	t.Helper()
	if want == exit.Unproved && !a.o.Required {
		want = exit.Done
	}
	a.o.AllowNoDevice = true
	said, code := a.dispatch(t, words, feature)
	if code != want {
		t.Errorf("%s, %s, feature %v, --gpu-allow-no-device: exit code %d, want %d: %s", words, a.who, feature, code, want, said)
	}
	a.silent(t, words, feature, want, said)
}

func (a asker) dispatch(t *testing.T, words string, feature bool) (said string, code int) {
	t.Helper()
	w := newWorker(t, map[string]string{"w/gpubuild.toml": a.config, "bin/rustc": ""})
	w.on = feature
	b := w.b
	if verify.HasNode(b.m.Host) {
		need.Missing(t, "no-gpu", "a GPU is here")
	}
	if a.ci {
		b.m.Host.Env = b.m.Host.Env.Set("CI", "true")
	}
	if feature {
		words += " --features cuda"
	}
	c := b.command(words)
	c.Options.Proof = a.o
	_, err := Dispatch(t.Context(), c)
	return b.said.String(), exit.Of(err)
}
