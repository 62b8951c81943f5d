package receipt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/exit"
)

// PredicateType names a receipt in an in-toto Statement, and Namespace what `ssh-keygen -Y` signs it for.
const (
	PredicateType = "urn:gpubuild:receipt:1"
	Namespace     = "gpubuild-receipt"
)

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// Statement is what is signed: the in-toto Statement v1 (in-toto/attestation, spec/v1/statement.md) of the receipt's programs. A receipt
// always makes the same one, so only the signature is stored.
func (r Receipt) Statement() ([]byte, error) {
	var subjects []subject
	for _, one := range append([]Receipt{r}, r.More...) {
		if b := one.Binary; b.SHA256 != "" {
			subjects = append(subjects, subject{b.Path, map[string]string{"sha256": b.SHA256}})
		}
	}
	switch {
	case !r.Intact():
		return nil, damaged(errors.New("it was changed after it was written: its sum does not fit"))
	case len(subjects) == 0:
		return nil, exit.Errorf(exit.Usage, "", "this receipt is of no program, so there is nothing to sign")
	}
	data, err := json.Marshal(struct {
		Type          string    `json:"_type"`
		Subject       []subject `json:"subject"`
		PredicateType string    `json:"predicateType"`
		Predicate     Receipt   `json:"predicate"`
	}{"https://in-toto.io/Statement/v1", subjects, PredicateType, r})
	return append(data, '\n'), err
}

// Sign returns a signature of a statement by ssh-keygen, which asks for a passphrase itself. key is a private key, or a public one of
// ssh-agent.
func Sign(ctx context.Context, h buildenv.Host, run buildenv.Runner, key string, statement []byte) ([]byte, error) {
	out, said, err := sshKeygen(ctx, h, run, statement, "-Y", "sign", "-n", Namespace, "-f", key)
	if _, refused := errors.AsType[*buildenv.ExitError](err); refused {
		err = exit.Errorf(exit.Usage, "give an SSH key that only you can read (chmod 600), with a passphrase that of ssh-agent (its .pub); "+
			"`ssh-keygen -t ed25519` makes one", "ssh-keygen signed nothing: %s", said)
	}
	return out, err
}

// Signature is a file of a signature, and who is to have made it.
type Signature struct {
	File    string
	Signer  string // a name in Allowed
	Allowed string // a file of allowed signers, as ssh-keygen(1) says
}

// Verify returns the key that signed a receipt, or what keeps the signature from being believed.
func (s Signature) Verify(ctx context.Context, h buildenv.Host, run buildenv.Runner, r Receipt, shown func(string) string) (
	key, wrong string, err error) {
	if !h.IsFile(s.Allowed) {
		return "", "", &exit.UsageError{What: "there is no file of allowed signers: " + shown(s.Allowed), Fix: "write a line `" + s.Signer +
			" namespaces=\"" + Namespace + "\" ` and their public key to it, or name another file: --allowed-signers FILE"}
	}
	if !h.IsFile(s.File) {
		return "", "it is not signed: there is no " + shown(s.File), nil
	}
	for _, file := range []string{s.Allowed, s.File} { // ssh-keygen reads whatever it is given to its end
		if err := h.Check(file, buildenv.Note); err != nil {
			return "", "", &exit.UsageError{What: err.Error(), Fix: "a signature and the allowed signers are regular files"}
		}
	}
	statement, err := r.Statement()
	if err != nil {
		return "", err.Error(), nil
	}
	out, said, err := sshKeygen(ctx, h, run, statement, "-Y", "verify", "-n", Namespace, "-f", s.Allowed, "-I", s.Signer, "-s", s.File)
	if _, refused := errors.AsType[*buildenv.ExitError](err); refused {
		no := cmp.Or(said, "no key of theirs made the signature")
		return "", fmt.Sprintf("%s did not sign it with a key of %s: %s", s.Signer, s.Allowed, no), nil
	}
	_, key, _ = strings.Cut(strings.TrimSpace(string(out)), " with ")
	return key, "", err
}

// sshKeygen runs ssh-keygen on a statement. said is its first error that means something.
func sshKeygen(ctx context.Context, h buildenv.Host, run buildenv.Runner, statement []byte, args ...string) (out []byte, said string, err error) {
	path, err := h.LookPath("ssh-keygen")
	if err != nil {
		return nil, "", exit.Errorf(exit.Missing, "install OpenSSH 8.2 or newer", "%w: it signs receipts and verifies signatures", err)
	}
	r, err := run.Run(ctx, buildenv.Cmd{Path: path, Args: args, Env: h.Env.Entries(), Stdin: bytes.NewReader(statement)})
	for line := range strings.Lines(string(r.Stderr)) {
		// a frame of @ stands around "Permissions 0644 for 'key' are too open."
		if line = strings.TrimSpace(line); line != "Signing data on standard input" && !strings.HasPrefix(line, "@") {
			said = cmp.Or(said, line)
		}
	}
	return r.Stdout, said, err
}
