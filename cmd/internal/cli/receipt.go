package cli

import (
	"context"
	"fmt"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

func receiptVerb() verb {
	var o Options
	return verb{
		name: "receipt", usage: "check that a receipt of a proof still holds: `verify FILE [BIN]`",
		text: "gpubuild prove --receipt proof.json target/release/app -- --device cuda\n" +
			"gpubuild receipt verify proof.json target/release/app\n\n" +
			"Ends 0 when the binary is the one that was proven and today's rules, applied to the stored evidence, say the same; " +
			"else 21.\nA receipt is no signature: it is worth as much as the way on which it came.",
		flags: answerFlag(&o),
		run: func(ctx context.Context, a *invocation, l cargo.Line) error {
			return runReceipt(ctx, a, o, l)
		},
	}
}

// real answers which drivers count as real in an evidence.
func (a *invocation) real() receipt.Real { return receipt.RealWhereRecorded(a.Host, a.Real) }

// runReceipt checks a receipt against a binary and against today's rules.
func runReceipt(_ context.Context, a *invocation, o Options, l cargo.Line) error {
	words := l.Positional
	if len(words) < 2 || len(words) > 3 || words[0] != "verify" {
		return &usageError{"receipt knows one thing to do: verify FILE [BIN]", "gpubuild receipt verify proof.json target/release/app"}
	}
	file := a.Host.Abs(words[1])
	data, err := a.Host.ReadFile(file, receipt.Limit)
	if err != nil {
		return &usageError{err.Error(), "give the file that `gpubuild prove --receipt FILE` wrote"}
	}
	r, err := receipt.Decode(data)
	if err != nil {
		return fmt.Errorf("%s: %w", words[1], err)
	}
	binary := r.Binary.Path
	if len(words) == 3 {
		binary = a.Host.Abs(words[2])
	}
	wrong, r := receipt.Verify(r, binary, len(words) == 3, a.real())
	if err := report.Answer(a.Machine, o.JSON, "receipt", len(wrong) == 0, nil, struct {
		File    string         `json:"file"`
		Binary  string         `json:"binary"`
		Wrong   []string       `json:"wrong"`
		Verdict verify.Verdict `json:"verdict"`
	}{words[1], binary, append([]string{}, wrong...), r.Verdict}); err != nil {
		return err
	}
	if len(wrong) > 0 {
		a.Shell.Loud("Unproved", "%s does not hold for %s", words[1], a.Shown(binary))
		for _, w := range wrong {
			a.Shell.Status("", "%s", w)
		}
		return exit.Code(exit.Unproved)
	}
	where := "on the CPU"
	if r.Device != "" {
		where = "on " + r.Device
	}
	a.Shell.Status("Verified", "%s: %s, %s %s; this is that binary, and judged again the evidence says the same", words[1], a.Shown(binary),
		r.Verdict.Kind, where)
	return nil
}
