package cli

import (
	"cmp"
	"context"
	"fmt"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/bundle"
	"gpubuild/cmd/internal/help"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

func receiptVerb() verb {
	var json *string
	var cpu bool
	var signer, allowed, key, statement string
	return verb{
		Verb: help.Verb{
			Name: "receipt", Usage: "check that the receipt of a proof still holds, and sign it",
			Text: "Trust an unsigned receipt as far as you trust where it came from.",
		},
		verbs: []verb{{
			Verb: help.Verb{
				Name: "verify", Args: "FILE [PROGRAM]", Usage: "check a receipt against the program and today's rules",
				Examples: []string{"gpubuild receipt verify proof.json target/release/app"},
				Text: "`gpubuild prove --receipt FILE` writes receipts. Exits with 0 if the program is the one that was proven and " +
					"today's rules give the same verdict on the stored evidence, with 2 if FILE is no receipt or a damaged one, " +
					"with 20 if it shows that the program ran on the CPU (with --expect cpu: 0), else with 21.",
			},
			flags: append(grouped("Proof", newFlag("expect", cargo.Value, "gpu|cpu", "cpu: accept that the program ran on the CPU",
				func(v string) error {
					if cpu = v == "cpu"; !cpu && v != "gpu" {
						return fmt.Errorf("%.200q is neither gpu nor cpu", v)
					}
					return nil
				}),
				text("signer", "NAME", "demand that this one of the allowed signers signed it, in FILE.sig", &signer),
				text("allowed-signers", "FILE", "who may sign, with which keys, as `man ssh-keygen` has it (~/.ssh/allowed_signers)", &allowed),
			), jsonFlag(&json)),
			run: func(ctx context.Context, a *invocation, l cargo.Line) error {
				if signer == "" && allowed != "" {
					return usage("--allowed-signers needs --signer", "--signer NAME, as that file names the signer")
				}
				signature := receipt.Signature{File: a.Host.Abs(l.Positional[0]) + signatureExt, Signer: signer,
					Allowed: a.Host.Abs(cmp.Or(allowed, a.Host.Join(a.Host.Home, ".ssh", "allowed_signers")))}
				return runReceipt(ctx, a, json, receipt.Demand{CPU: cpu, Signature: signature, Real: a.real(), Shown: a.Shown}, l)
			},
		}, {
			Verb: help.Verb{
				Name: "sign", Args: "FILE", Usage: "sign a receipt with an SSH key",
				Examples: []string{"gpubuild receipt sign proof.json --key ~/.ssh/id_ed25519"},
				Text: "Writes FILE.sig: what `ssh-keygen -Y sign -n " + receipt.Namespace + "` makes of the receipt as an in-toto " +
					"Statement. ssh-keygen must be on PATH.",
			},
			flags: []*flag{
				text("key", "FILE", "a private SSH key, or the public one of a key that ssh-agent has", &key),
				text("statement", "FILE", "write the Statement, too, for tools that verify it without gpubuild", &statement),
			},
			run: func(ctx context.Context, a *invocation, l cargo.Line) error {
				return runSign(ctx, a, key, statement, l.Positional[0])
			},
		}},
	}
}

// signatureExt ends the name of a receipt's signature.
const signatureExt = ".sig"

// runSign writes the signature of a receipt.
func runSign(ctx context.Context, a *invocation, key, statement, name string) error {
	if key == "" {
		return usage("no key is named", "gpubuild receipt sign "+name+" --key FILE")
	}
	to := name + signatureExt
	if a.Host.Abs(to) == a.Host.Abs(statement) {
		return usage(to+" is to hold the signature, and is named as another file", "name another file")
	}
	r, err := readReceipt(a, name)
	if err = cmp.Or(err, a.CheckFile(to)); err != nil {
		return err
	}
	data, err := r.Statement()
	if err != nil {
		return err
	}
	signature, err := receipt.Sign(ctx, a.Host, a.Runner, a.Host.Abs(key), data)
	if err == nil && statement != "" {
		err = a.WriteFile(statement, data, 0o644)
	}
	if err == nil {
		err = a.WriteFile(to, signature, 0o644)
	}
	if err == nil {
		a.Shell.Status("Signed", "%s: %s", name, to)
	}
	return err
}

// real reports which drivers count as real in an evidence.
func (a *invocation) real() receipt.Real { return receipt.RealWhereRecorded(a.Host, a.Real) }

// readReceipt reads the receipt that the command line names.
func readReceipt(a *invocation, name string) (receipt.Receipt, error) {
	data, err := local.ReadNamed(a.Host, a.Host.Abs(name), receipt.Limit)
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
func runReceipt(ctx context.Context, a *invocation, jsonTo *string, d receipt.Demand, l cargo.Line) error {
	file := l.Positional[0]
	r, err := readReceipt(a, file)
	if err == nil && len(l.Positional) == 2 {
		d.Binary = a.Host.Abs(l.Positional[1])
		var bundled string
		bundled, _, err = bundle.Open(a.Host, d.Binary)
		d.Binary = cmp.Or(bundled, d.Binary)
	}
	if err != nil {
		return err
	}
	c, err := d.Check(ctx, a.Host, a.Runner, file, r)
	if err == nil {
		err = report.Answer(a.Machine, jsonTo, "receipt-verify", len(c.Wrong) == 0, nil, c)
	}
	if err != nil {
		return err
	}
	end, lines := c.End(), c.Wrong
	switch end {
	case nil:
		lines = c.Lines(a.Host)
		a.Shell.Status("Verified", "%s: %s, %s", file, a.Shown(c.Binary), lines[0])
		lines = lines[1:]
	case exit.Code(exit.NotUsed):
		a.Shell.Alert(verify.NotUsed.Title(), "%s: %s", a.Shown(c.Binary), c.Wrong[0])
		lines = nil
	default:
		a.Shell.Alert("Not proven:", "%s does not hold for %s", file, a.Shown(c.Binary))
	}
	for _, line := range lines {
		a.Shell.Status("", "%s", line)
	}
	return end
}
