package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/answer"
	"gpubuild/cmd/internal/bundle"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/origin"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

func receiptVerb() verb {
	var json *string
	cpu := false
	return verb{
		Verb: help.Verb{
			Name: "receipt", Usage: "check that the receipt of a proof still holds",
			Text: "A receipt is not a signature: trust it as far as you trust where it came from.",
		},
		verbs: []verb{{
			Verb: help.Verb{
				Name: "verify", Args: "FILE [PROGRAM]", Usage: "check a receipt against the program and today's rules",
				Examples: []string{"gpubuild receipt verify proof.json target/release/app"},
				Text: "`gpubuild prove --receipt FILE` writes receipts. Exits with 0 if the program is the one that was proven and " +
					"today's rules give the same verdict on the stored evidence, with 2 if FILE is no receipt or a damaged one, " +
					"with 20 if it shows that the program ran on the CPU (with --expect cpu: 0), else with 21.",
			},
			flags: append(grouped("Proof", newFlag("expect", cargo.Value, "gpu|cpu", "cpu: accept that the program ran on the CPU, as was expected of it",
				func(v string) error {
					if cpu = v == "cpu"; !cpu && v != "gpu" {
						return fmt.Errorf("%.200q is neither gpu nor cpu", v)
					}
					return nil
				})), jsonFlag(&json)),
			run: func(ctx context.Context, a *invocation, l cargo.Line) error { return runReceipt(a, json, cpu, l) },
		}},
	}
}

// real reports which drivers count as real in an evidence.
func (a *invocation) real() receipt.Real { return receipt.RealWhereRecorded(a.Host, a.Real) }

// readReceipt reads the receipt that the command line names.
func readReceipt(a *invocation, name string) (receipt.Receipt, error) {
	data, err := local.ReadNamed(a.Host.Abs(name), receipt.Limit)
	if err != nil {
		return receipt.Receipt{}, usage(err.Error(), "give the file that `gpubuild prove --receipt FILE` wrote")
	}
	r, err := receipt.Decode(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return r, err
}

// runReceipt checks a receipt against a binary and against today's rules.
func runReceipt(a *invocation, jsonTo *string, cpu bool, l cargo.Line) error {
	words := l.Positional
	r, err := readReceipt(a, words[0])
	if err != nil {
		return err
	}
	binary := r.Binary.Path
	if len(words) == 2 {
		binary = a.Host.Abs(words[1])
		bundled, _, err := bundle.Open(a.Host, binary)
		if err != nil {
			return err
		}
		binary = cmp.Or(bundled, binary)
	}
	whole := r
	wrong, r := receipt.Verify(r, binary, len(words) == 2, a.real())
	if future := whole.FromTheFuture(time.Now()); future != "" {
		wrong = append(wrong, future)
	}
	if cpu && r.Asked.Expect != "cpu" {
		wrong = append(wrong, "it does not show that the program ran on the CPU: its GPU was asked for")
	}
	onCPU := len(wrong) == 0 && r.Asked.Expect == "cpu"
	if onCPU && !cpu {
		wrong = append(wrong, "it shows that the program ran on the CPU, as was expected of it; --expect cpu accepts that")
	}
	said := answer.Receipt{File: words[0], Binary: binary, Wrong: append([]string{}, wrong...), Verdict: r.Verdict,
		Time: whole.Time, Origin: whole.Origin, Asked: r.Asked}
	if err := report.Answer(a.Machine, jsonTo, "receipt-verify", len(wrong) == 0, nil, said); err != nil {
		return err
	}
	if onCPU && !cpu {
		a.Shell.Alert(verify.NotUsed.Title(), "%s: %s", a.Shown(binary), wrong[0])
		return exit.Code(exit.NotUsed)
	}
	if len(wrong) > 0 {
		a.Shell.Alert("Not proven:", "%s does not hold for %s", words[0], a.Shown(binary))
		for _, w := range wrong {
			a.Shell.Status("", "%s", w)
		}
		return exit.Code(exit.Unproved)
	}
	where := "on the CPU"
	if r.Device != "" {
		where = "on " + r.Device
	}
	a.Shell.Status("Verified", "%s: %s, %s %s; binary matches, and re-evaluating the evidence gives the same verdict",
		words[0], a.Shown(binary), r.Verdict.Kind, where)
	rules, err := r.Asked.Rules()
	if err != nil {
		return err
	}
	a.Shell.Status("", "looked for: %s", verify.Asked(r.Evidence, rules))
	for _, also := range r.UsedFiles {
		switch what := fmt.Sprintf("not looked at: %s (SHA-256 %.16s…)", also.Path, also.SHA256); {
		case also.Host != "":
			a.Shell.Status("", "%s on %s, which was used with it", what, also.Host)
		case also.Sent && !a.Host.IsFile(also.Path):
			a.Shell.Status("", "%s, which was sent with it: it is not here", what)
		}
	}
	from := cmp.Or(whole.Origin, &origin.Origin{})
	commit := cmp.Or(from.Commit, "unknown")
	if from.Modified {
		commit += ", with changes"
	} else if from.Unknown {
		commit += ", perhaps with changes"
	}
	when := "unknown"
	if !whole.Time.IsZero() {
		when = whole.Time.UTC().Format(time.RFC3339)
	}
	a.Shell.Status("", "made: %s, commit %s, machine %s", when, commit, cmp.Or(from.Machine, "unknown"))
	a.Shell.Status("", "unsigned: trust it as far as you trust where it came from")
	return nil
}
