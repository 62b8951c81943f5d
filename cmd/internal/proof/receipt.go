package proof

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"gpubuild/buildenv/cache"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/session"
	"gpubuild/cmd/internal/version"
	"gpubuild/gpu/verify"
)

// prove runs and judges a program, with a receipt where one is asked for. The binary is hashed before the run and, by the file's identity,
// compared with what ran: a receipt is of what was started.
func (t Task) prove(ctx context.Context, m *session.Machine, asked verify.Options) (Proof, error) {
	if file := m.Host.Abs(asked.Child); strings.Contains(asked.Child, "/") && m.Host.IsFile(file) {
		asked.Child = m.Host.Real(file) // processes are known by the file that a link leads to
	}
	if !t.Receipt {
		return t.run(ctx, m, asked)
	}
	began := time.Now()
	sealed, err := receipt.Seal(asked.Binary)
	if err != nil {
		return Proof{}, err
	}
	p, err := t.run(ctx, m, asked)
	if err != nil {
		return p, err
	}
	r, err := t.receipt(m, sealed, began, p, asked)
	if err != nil {
		p.NoReceipt = "no receipt: " + err.Error()
		return p, nil
	}
	p.Receipt = &r
	return p, nil
}

// receipt is that of a program that was proven. A file that is not what ran has none: one next to the binary must not have changed since
// the run began, because nobody knows when in it the file was read.
func (t Task) receipt(m *session.Machine, sealed receipt.Sealed, began time.Time, p Proof, asked verify.Options) (
	r receipt.Receipt, err error) {
	now, err := cache.Identify(asked.Binary)
	if err == nil && now != sealed.ID { // its time alone may be another, or it was replaced by the same
		var again receipt.Sealed
		if again, err = receipt.Seal(asked.Binary); err == nil && again.SHA256 != sealed.SHA256 {
			err = changed(asked.Binary)
		}
	}
	if err != nil {
		return r, err
	}
	r = receipt.New(version.Number(), Binary(m, sealed, p.Evidence.Binary), asked.Env, asked.Probe.SourceHash,
		receipt.Ask(asked.Rules, t.Asked.Expect == "cpu"), p.Evidence, p.Verdict)
	for _, also := range p.Evidence.UsedFiles(asked.Rules, asked.Script(m.Host)) {
		sealed, err := receipt.Seal(also.Path)
		if err != nil {
			return r, err
		}
		fi, err := os.Stat(also.Path)
		if err != nil || also.Inode != 0 && (sealed.ID.Inode != also.Inode || sealed.ID.Device != also.Device) ||
			cache.StateTimeOf(fi) > began.UnixNano() {
			return r, errors.Join(err, changed(also.Path))
		}
		r.UsedFiles = append(r.UsedFiles, receipt.Binary{Path: also.Path, Size: sealed.Size, SHA256: sealed.SHA256})
	}
	return r, nil
}

func changed(file string) error { return fmt.Errorf("%s changed while it was proven", file) }

// run runs and judges a program. What is stored of its arguments is their hash, unless the user wants them.
func (t Task) run(ctx context.Context, m *session.Machine, asked verify.Options) (Proof, error) {
	p, err := prove(ctx, m, asked)
	if !t.WithArgs {
		p.Args, p.Evidence.Args = receipt.Hidden(p.Args), receipt.Hidden(p.Evidence.Args)
	}
	return p, err
}

// Binary is what a receipt says of a program: its hash, and its device code.
func Binary(m *session.Machine, sealed receipt.Sealed, path string) receipt.Binary {
	b := receipt.Binary{Path: path, Size: sealed.Size, SHA256: sealed.SHA256}
	if r, err := Scan(m, path); err == nil {
		b.Code = Line(r)
	}
	return b
}
