package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gpubuild/buildenv"
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
				s := receipt.Signature{File: a.Host.Abs(l.Positional[0]) + signatureExt, Signer: signer,
					Allowed: a.Host.Abs(cmp.Or(allowed, a.Host.Join(a.Host.Home, ".ssh", "allowed_signers")))}
				return runReceipt(ctx, a, json, cpu, s, l)
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
	r, err := readReceipt(a, name)
	if err != nil {
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
		err = a.WriteFile(name+signatureExt, signature, 0o644)
	}
	if err == nil {
		a.Shell.Status("Signed", "%s: %s", name, name+signatureExt)
	}
	return err
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
func runReceipt(ctx context.Context, a *invocation, jsonTo *string, cpu bool, signature receipt.Signature, l cargo.Line) error {
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
	key := ""
	if signature.Signer != "" {
		no := ""
		if key, no, err = verifySignature(ctx, a, signature, whole); err != nil {
			return err
		} else if no != "" {
			wrong = append(wrong, no)
		}
	}
	used := r.Verdict.Kind != verify.NotUsed
	if cpu && used {
		wrong = append(wrong, "it does not show that the program ran on the CPU")
	}
	wrong = slices.DeleteFunc(wrong, func(w string) bool { return !used && w == r.Unexpected() })
	onCPU := len(wrong) == 0 && !used
	if onCPU && !cpu {
		wrong = append(wrong, "it shows that the program ran on the CPU; --expect cpu accepts that")
	}
	said := answer.Receipt{File: words[0], Binary: binary, Wrong: append([]string{}, wrong...), Verdict: r.Verdict,
		Signed: key != "", Key: key, Time: whole.Time, Origin: whole.Origin, Asked: r.Asked}
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
	if key != "" {
		a.Shell.Status("", "signed: by %s, %s", signature.Signer, key)
	} else {
		a.Shell.Status("", "unsigned: trust it as far as you trust where it came from")
	}
	return nil
}

// verifySignature returns the key that signed a receipt, or what is wrong with its signature.
func verifySignature(ctx context.Context, a *invocation, s receipt.Signature, r receipt.Receipt) (key, wrong string, err error) {
	if !a.Host.IsFile(s.Allowed) {
		return "", "", usage("there is no file of allowed signers: "+a.Shown(s.Allowed), "write a line `"+s.Signer+" namespaces=\""+
			receipt.Namespace+"\" ` and their public key to it, or name another file: --allowed-signers FILE")
	}
	if !a.Host.IsFile(s.File) {
		return "", "it is not signed: there is no " + a.Shown(s.File), nil
	}
	for _, file := range []string{s.Allowed, s.File} { // ssh-keygen reads whatever it is given to its end
		if err := a.Host.Check(file, buildenv.Note); err != nil {
			return "", "", usage(err.Error(), "a signature and the allowed signers are regular files")
		}
	}
	statement, err := r.Statement()
	if err != nil {
		return "", err.Error(), nil
	}
	return s.Verify(ctx, a.Host, a.Runner, statement)
}
