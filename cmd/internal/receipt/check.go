package receipt

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/origin"
	"gpubuild/gpu/verify"
)

// Demand is what `receipt verify` demands of a receipt.
type Demand struct {
	Binary string // empty: the receipt's own path
	CPU    bool   // the program ran on the CPU
	Signature
	Real  Real
	Shown func(path string) string // a path in a message
}

// Checked is the answer of `receipt verify`.
type Checked struct {
	File    string         `json:"file"`
	Binary  string         `json:"binary"`
	Wrong   []string       `json:"wrong"`
	Verdict verify.Verdict `json:"verdict"`
	Signed  bool           `json:"signed"`        // by --signer; false without it: whoever can write the file can change it
	Key     string         `json:"key,omitempty"` // that signed it: its type and fingerprint
	Time    time.Time      `json:"time,omitzero"`
	Origin  *origin.Origin `json:"origin,omitempty"`
	Asked   Asked          `json:"asked"`

	receipt Receipt // the binary's
	signer  string
	onCPU   bool // the receipt holds, and shows that the program ran on the CPU
}

// Check checks the receipt of a file.
func (d Demand) Check(ctx context.Context, h buildenv.Host, run buildenv.Runner, file string, whole Receipt) (Checked, error) {
	binary := cmp.Or(d.Binary, whole.Binary.Path)
	wrong, r := Verify(whole, binary, d.Binary != "", d.Real)
	if future := whole.FromTheFuture(time.Now()); future != "" {
		wrong = append(wrong, future)
	}
	key := ""
	if d.Signer != "" {
		no, err := "", error(nil)
		if key, no, err = d.Verify(ctx, h, run, whole, d.Shown); err != nil {
			return Checked{}, err
		} else if no != "" {
			wrong = append(wrong, no)
		}
	}
	verdict, _ := r.Recheck(d.Real(r.Evidence)) // in the words of today, which the evidence gives: those of the file may be anybody's
	used := r.Verdict.Kind != verify.NotUsed
	if d.CPU && used {
		wrong = append(wrong, "it does not show that the program ran on the CPU")
	}
	wrong = slices.DeleteFunc(wrong, func(w string) bool { return (d.CPU || !used) && w == r.Unexpected() })
	onCPU := len(wrong) == 0 && !used
	if onCPU && !d.CPU {
		wrong = append(wrong, "it shows that the program ran on the CPU; --expect cpu accepts that")
	}
	return Checked{File: file, Binary: binary, Wrong: append([]string{}, wrong...), Verdict: verdict, Signed: key != "", Key: key,
		Time: whole.Time, Origin: whole.Origin, Asked: r.Asked, receipt: r, signer: d.Signer, onCPU: onCPU}, nil
}

// End is the exit code that says how the check ended; nil: the receipt holds.
func (c Checked) End() error {
	switch {
	case len(c.Wrong) == 0:
		return nil
	case c.onCPU:
		return exit.Code(exit.NotUsed)
	}
	return exit.Code(exit.Unproved)
}

// Lines say what a receipt that holds shows, and where it was made.
func (c Checked) Lines(h buildenv.Host) []string {
	shown := "ran on the CPU, as expected"
	if !c.onCPU {
		shown = fmt.Sprintf("%s on %s", c.Verdict.Kind, c.receipt.Device)
	}
	rules, _ := c.Asked.Rules() // it could be read, or the receipt does not hold
	lines := []string{
		shown + "; binary matches, and re-evaluating the evidence gives the same verdict",
		"looked for: " + verify.Asked(c.receipt.Evidence, rules),
	}
	for _, also := range c.receipt.UsedFiles {
		switch what := fmt.Sprintf("not looked at: %s (SHA-256 %.16s…)", also.Path, also.SHA256); {
		case also.Host != "":
			lines = append(lines, fmt.Sprintf("%s on %s, which was used with it", what, also.Host))
		case also.Sent && !h.IsFile(also.Path):
			lines = append(lines, what+", which was sent with it: it is not here")
		}
	}
	from := cmp.Or(c.Origin, &origin.Origin{})
	commit := cmp.Or(from.Commit, "unknown")
	if from.Modified {
		commit += ", with changes"
	} else if from.Unknown {
		commit += ", perhaps with changes"
	}
	when := "unknown"
	if !c.Time.IsZero() {
		when = c.Time.UTC().Format(time.RFC3339)
	}
	signed := "unsigned: trust it as far as you trust where it came from"
	if c.Signed {
		signed = fmt.Sprintf("signed: by %s, %s", c.signer, c.Key)
	}
	return append(lines, fmt.Sprintf("made: %s, commit %s, machine %s", when, commit, cmp.Or(from.Machine, "unknown")), signed)
}
