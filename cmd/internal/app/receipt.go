package app

import (
	"context"
	"fmt"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// sealed is a binary's hash and the file's identity when it was taken.
type sealed struct {
	sum  string
	id   cache.Identity
	size int64
}

// receiptHash hashes the binary where a receipt is asked for.
func (a *app) receiptHash(o Options, binary string) (sealed, error) {
	if o.Receipt == "" {
		return sealed{}, nil
	}
	return seal(binary)
}

func seal(file string) (sealed, error) {
	id, err := cache.Identify(file)
	if err != nil {
		return sealed{}, err
	}
	sum, err := cache.Hash(file)
	if err != nil {
		return sealed{}, err
	}
	now, err := cache.Identify(file)
	if err != nil {
		return sealed{}, err
	}
	if now != id {
		return sealed{}, fmt.Errorf("%s changed while it was read", file)
	}
	return sealed{sum, id, id.Size}, nil
}

// writeReceipt writes what a proof showed, whatever that is.
func (a *app) writeReceipt(o Options, p proof, asked verify.Options, hash sealed) error {
	if o.Receipt == "" {
		return nil
	}
	now, err := cache.Identify(asked.Binary)
	if err != nil {
		return err
	}
	if now != hash.id {
		return fmt.Errorf("no receipt: %s changed while it was proven", asked.Binary)
	}
	code := ""
	if r, err := a.scan(asked.Binary); err == nil {
		code = scanLine(r)
	}
	b := receipt.Binary{Path: p.Evidence.Binary, Size: hash.size, SHA256: hash.sum, Code: code}
	r := receipt.New(version(), b, asked.Env, asked.Probe.SourceHash, receipt.Ask(asked.Rules(), o.ExpectCPU), p.Evidence, p.Verdict)
	data, err := r.Encode()
	if err != nil {
		return err
	}
	file := a.host.Abs(o.Receipt)
	if err := cache.WriteFile(file, data, 0o644); err != nil {
		return err
	}
	a.shell.Status("Receipt", "%s (%s)", a.shown(file), p.Verdict.Kind)
	return nil
}

// runReceipt checks a receipt against a binary and against today's rules.
func runReceipt(a *app, _ context.Context, o Options, l cargo.Line) error {
	words := l.Positional
	if len(words) < 2 || len(words) > 3 || words[0] != "verify" {
		return &usageError{"receipt knows one thing to do: verify FILE [BIN]", "gpubuild receipt verify proof.json target/release/app"}
	}
	file := a.host.Abs(words[1])
	data, err := a.host.ReadFile(file, receipt.Limit)
	if err != nil {
		return &usageError{err.Error(), "give the file that `gpubuild prove --receipt FILE` wrote"}
	}
	r, err := receipt.Decode(data)
	if err != nil {
		return fmt.Errorf("%s: %w", words[1], err)
	}
	binary := r.Binary.Path
	if len(words) == 3 {
		binary = a.host.Abs(words[2])
	}
	var wrong []string
	hash, err := seal(binary)
	if err != nil {
		wrong = append(wrong, fmt.Sprintf("the binary could not be looked at: %v", err))
		if len(words) == 2 {
			wrong = append(wrong, "give the binary behind the receipt; without it only the receipt's own path is looked at")
		}
		hash = sealed{sum: r.Binary.SHA256, size: r.Binary.Size} // said once; the rest is checked all the same
	}
	recorded := a.host
	recorded.OS = buildenv.Linux // programs are proven only there, and a receipt may be verified elsewhere
	wrong = append(wrong, r.Check(hash.sum, hash.size, a.real(recorded))...)
	if err := a.answer(o, "receipt", len(wrong) == 0, nil, struct {
		File    string         `json:"file"`
		Binary  string         `json:"binary"`
		Wrong   []string       `json:"wrong"`
		Verdict verify.Verdict `json:"verdict"`
	}{words[1], binary, append([]string{}, wrong...), r.Verdict}); err != nil {
		return err
	}
	if len(wrong) > 0 {
		a.shell.Loud("Unproved", "%s does not hold for %s", words[1], a.shown(binary))
		for _, w := range wrong {
			a.shell.Status("", "%s", w)
		}
		return codeError(codeUnproved)
	}
	where := "on the CPU"
	if r.Device != "" {
		where = "on " + r.Device
	}
	a.shell.Status("Verified", "%s: %s, %s %s; this is that binary, and judged again the evidence says the same", words[1], a.shown(binary), r.Verdict.Kind, where)
	return nil
}
