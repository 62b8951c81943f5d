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
					"else with 21.",
			},
			flags: []*flag{jsonFlag(&json)},
			run:   with(&json, runReceipt),
		}},
	}
}

// real reports which drivers count as real in an evidence.
func (a *invocation) real() receipt.Real { return receipt.RealWhereRecorded(a.Host, a.Real) }

// runReceipt checks a receipt against a binary and against today's rules.
func runReceipt(_ context.Context, a *invocation, jsonTo *string, l cargo.Line) error {
	words := l.Positional
	file := a.Host.Abs(words[0])
	data, err := local.ReadNamed(file, receipt.Limit)
	if err != nil {
		return usage(err.Error(), "give the file that `gpubuild prove --receipt FILE` wrote")
	}
	r, err := receipt.Decode(data)
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
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
	said := answer.Receipt{File: words[0], Binary: binary, Wrong: append([]string{}, wrong...), Verdict: r.Verdict,
		Time: whole.Time, Origin: whole.Origin, Asked: r.Asked}
	if err := report.Answer(a.Machine, jsonTo, "receipt-verify", len(wrong) == 0, nil, said); err != nil {
		return err
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
	for _, also := range r.Also {
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
	}
	when := "unknown"
	if !whole.Time.IsZero() {
		when = whole.Time.UTC().Format(time.RFC3339)
	}
	a.Shell.Status("", "made: %s, commit %s, machine %s", when, commit, cmp.Or(from.Machine, "unknown"))
	a.Shell.Status("", "unsigned: trust it as far as you trust where it came from")
	return nil
}
