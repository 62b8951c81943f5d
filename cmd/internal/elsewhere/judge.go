package elsewhere

import (
	"fmt"
	"slices"
	"strings"

	"gpubuild/cmd/internal/proof"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu/verify"
)

// judged judges what a program did there by the rules for programs here. The verdict that came with the evidence counts for nothing.
// Paths of files that were sent become those of the files here.
func judged(m *session.Machine, req request, at string, came proof.Proof) (proof.Proof, error) {
	var none proof.Proof
	t, e := req.Task, came.Evidence
	args := t.Args
	if !t.WithArgs {
		args = receipt.Hidden(args)
	}
	dir, is := strings.CutSuffix(e.Binary, "/"+t.Binary)
	if !is || e.Launcher || !slices.Equal(e.Args, args) {
		return none, &Error{IDIncomplete, fmt.Sprintf("%s sent the evidence of another command: %s", at, e.Binary), ""}
	}
	sent := map[string]file{}
	for _, f := range req.Files {
		sent[dir+"/"+f.Name] = f
	}
	here := func(path *string) {
		if f, is := sent[*path]; is {
			*path = f.From
		}
	}
	here(&e.Binary)
	e.Processes, e.Watch.Seen = slices.Clone(e.Processes), slices.Clone(e.Watch.Seen)
	for i := range e.Processes {
		here(&e.Processes[i].Exe)
		here(&e.Processes[i].Script)
	}
	for i := range e.Watch.Seen {
		here(&e.Watch.Seen[i].Exe)
	}
	rules, err := t.Asked.Rules()
	if err != nil {
		return none, err
	}
	e = verify.Reconsider(e, m.Real(m.Host))
	p := proof.Proof{Program: e.Binary, Args: e.Args, Evidence: e, Verdict: verify.Judge(e, rules), Host: at,
		NoReceipt: came.NoReceipt}
	if came.Receipt != nil {
		program := sent[dir+"/"+t.Binary]
		binary := proof.Binary(m, receipt.Sealed{SHA256: program.SHA256, Size: program.Size}, e.Binary)
		r := receipt.New(version.Number(), binary, m.Host.Env, t.Probe.SourceHash, t.Asked, e, p.Verdict)
		r.Environment = came.Receipt.Environment
		for _, also := range came.Receipt.UsedFiles {
			f, is := sent[also.Path]
			if delete(sent, also.Path); !is {
				also.Host = p.Host
			} else if also.Path = f.From; also.SHA256 != f.SHA256 {
				return none, &Error{IDIncomplete, f.From + " was changed there before it ran", ""}
			}
			r.UsedFiles = append(r.UsedFiles, also)
		}
		for _, f := range req.Files {
			if _, other := sent[dir+"/"+f.Name]; other && strings.HasPrefix(f.Name, "work/") {
				r.UsedFiles = append(r.UsedFiles, receipt.Binary{Path: f.From, Size: f.Size, SHA256: f.SHA256, Sent: true})
			}
		}
		p.Receipt = &r
	}
	p.Verdict.Lines = append(p.Verdict.Lines, "on: "+p.Host)
	return p, nil
}
