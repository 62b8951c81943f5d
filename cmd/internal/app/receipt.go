package app

import (
	"context"
	"fmt"

	"gpubuild/buildenv"
	"gpubuild/buildenv/cache"
	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/report"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu/verify"
	"gpubuild/toolchain/cargo"
)

// sealed is a binary's hash and the file's identity when it was taken.
type sealed struct {
	sum  string
	id   cache.Identity
	size int64
}

// proveSealed is prove with a receipt of it, where one is asked for. The binary is hashed before the run and, by the file's identity, held against
// what ran: a receipt is of what was started.
func (a *app) proveSealed(ctx context.Context, o Options, asked verify.Options) (proof, error) {
	if o.Receipt == "" {
		return a.prove(ctx, asked)
	}
	hash, err := seal(asked.Binary)
	if err != nil {
		return proof{}, err
	}
	p, err := a.prove(ctx, asked)
	if err != nil {
		return p, err
	}
	now, err := cache.Identify(asked.Binary)
	if err != nil {
		return p, err
	}
	if now != hash.id {
		return p, fmt.Errorf("no receipt: %s changed while it was proven", asked.Binary)
	}
	r := a.makeReceipt(hash, p.Evidence, p.Verdict, asked.Env, asked.Probe.SourceHash, receipt.Ask(asked.Rules(), o.ExpectCPU))
	p.Receipt = &r
	return p, nil
}

// makeReceipt makes a receipt of evidence, with what the scan says of the binary.
func (a *app) makeReceipt(hash sealed, e verify.Evidence, v verify.Verdict, env buildenv.Env, probe string, asked receipt.Asked) receipt.Receipt {
	code := ""
	if r, err := a.scan(e.Binary); err == nil {
		code = scanLine(r)
	}
	return receipt.New(version.Number(), receipt.Binary{Path: e.Binary, Size: hash.size, SHA256: hash.sum, Code: code}, env, probe, asked, e, v)
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

// writeReceipt writes one file of what was found: the first receipt, the others behind it, and the result of the whole run.
func (a *app) writeReceipt(o Options, list []receipt.Receipt, r report.Result) error {
	answer, err := r.Answer(nil)
	if err != nil {
		return err
	}
	first := list[0]
	first.Result, first.More = answer, list[1:]
	data, err := first.Encode()
	if err != nil {
		return err
	}
	if err := a.writeFile(o.Receipt, data); err != nil {
		return err
	}
	a.Shell.Status("Receipt", "%s (%s)", a.Shown(a.Host.Abs(o.Receipt)), first.Verdict.Kind)
	return nil
}

// writeReceipts writes the receipt of a build or run: of each program that was proven, and of each that was built and not run. A build that made
// nothing has one, too: it says what was asked and why there is no program.
func (j *journey) writeReceipts(r report.Result) error {
	list := append([]receipt.Receipt{}, j.receipts...)
	proven := map[string]bool{}
	for _, p := range j.proofs {
		proven[p.Program] = true
	}
	rules := verify.Rules{}
	not := func(hash sealed, path string) {
		e := verify.Evidence{Schema: 1, Binary: path}
		list = append(list, j.makeReceipt(hash, e, verify.Judge(e, rules), j.Host.Env, "", receipt.Ask(rules, false)))
	}
	for _, p := range j.programs {
		if proven[p.Path] || p.Kind == "test" && j.Line.Verb != "test" && j.Line.Verb != "bench" {
			continue
		}
		hash, err := seal(p.Path)
		if err != nil {
			return err
		}
		not(hash, p.Path)
	}
	if len(list) == 0 {
		not(sealed{}, "")
	}
	return j.writeReceipt(j.options, list, r)
}

// checkReceipt answers what is wrong with a receipt, and which of several receipts in one file is the binary's.
func (a *app) checkReceipt(whole receipt.Receipt, binary string, alone bool) ([]string, receipt.Receipt) {
	if whole.Binary.Path == "" {
		return whole.Check("", 0, a.realFor(whole.Evidence)), whole
	}
	var wrong []string
	hash, err := seal(binary)
	r := whole.Of(hash.sum)
	if err != nil {
		wrong = append(wrong, fmt.Sprintf("the binary could not be looked at: %v", err))
		if alone {
			wrong = append(wrong, "give the binary behind the receipt; without it only the receipt's own path is looked at")
		}
		hash = sealed{sum: r.Binary.SHA256, size: r.Binary.Size} // said once; the rest is checked all the same
	}
	return append(wrong, whole.Check(hash.sum, hash.size, a.realFor(r.Evidence))...), r
}

// realFor answers which drivers count as real in an evidence: by the rules of the system where it was recorded, wherever it is looked at.
func (a *app) realFor(e verify.Evidence) func(verify.Loaded) (bool, string) {
	recorded := a.Host
	recorded.OS = orWord(e.OS, buildenv.Linux)
	return a.Real(recorded)
}

// runReceipt checks a receipt against a binary and against today's rules.
func runReceipt(a *app, _ context.Context, o Options, l cargo.Line) error {
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
	wrong, r := a.checkReceipt(r, binary, len(words) == 2)
	if err := a.answer(o, "receipt", len(wrong) == 0, nil, struct {
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
	a.Shell.Status("Verified", "%s: %s, %s %s; this is that binary, and judged again the evidence says the same", words[1], a.Shown(binary), r.Verdict.Kind, where)
	return nil
}
