package report

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/buildenv/local"
	"gpubuild/cmd/internal/receipt"
	"gpubuild/cmd/internal/session"
	"gpubuild/gpu/verify"
)

// resultLimit is the size up to which a result is read.
const resultLimit = receipt.Limit

// Collect reads the files of results that a command line names, and those of earlier runs below history, if that is there; of a directory
// every .json below it. One error names all that is no result.
func Collect(m *session.Machine, names []string, history string, real receipt.Real) (found []Observation, files int, err error) {
	list, err := resultFiles(m, names)
	now := len(list)
	if err == nil && history != "" && m.Host.IsDir(m.Host.Abs(history)) { // the first run has none
		list, err = resultFiles(m, append(names[:len(names):len(names)], history))
	}
	if err != nil {
		return nil, 0, err
	}
	var bad strings.Builder
	wrong := 0
	for i, f := range list {
		data, err := local.ReadNamed(m.Host, m.Host.Abs(f), resultLimit)
		results, as, wrongly := Read(data, real)
		if err = cmp.Or(err, wrongly); err != nil {
			fmt.Fprintf(&bad, "\n  %s: %s", f, err)
			wrong++
			continue
		}
		for _, r := range results {
			found = append(found, Observation{File: f, Receipt: as.Receipt, Earlier: as.Earlier || i >= now, Result: r})
		}
	}
	if wrong > 0 {
		return nil, 0, exit.Errorf(exit.Usage, "leave them out, or name a directory that holds results and nothing else",
			"%d of %s cannot be joined:%s", wrong, Count(len(list), "file"), &bad)
	}
	return found, len(list), nil
}

func resultFiles(m *session.Machine, names []string) ([]string, error) {
	var out []string
	seen := map[string]bool{}
	for _, name := range names {
		root := m.Host.Real(m.Host.Abs(name))
		err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
			isNamed := file == root && err == nil && !d.IsDir()
			if err != nil || !isNamed && (!d.Type().IsRegular() || !strings.EqualFold(filepath.Ext(file), ".json")) || seen[file] {
				return err
			}
			seen[file] = true
			if isNamed {
				out = append(out, name)
			} else {
				out = append(out, m.Shown(file))
			}
			return nil
		})
		if p, ok := errors.AsType[*fs.PathError](err); ok { // the path is said once
			err = p.Err
		}
		if err != nil {
			return nil, &exit.UsageError{What: fmt.Sprintf("%s cannot be read: %v", name, err),
				Fix: "give files that are there and that you may read, or their directory"}
		}
	}
	return out, nil
}

// OfReceipt makes the result of a receipt. A proof in it counts only as far as its own evidence, judged again, comes to it: a verdict that
// somebody wrote there is none.
func OfReceipt(r receipt.Receipt, real receipt.Real) (Result, error) {
	if !r.Intact() {
		return Result{}, errors.New("this receipt was changed after it was written: its sum does not fit")
	}
	var out Result
	if len(r.Result) == 0 {
		// Of a gpubuild that wrote no result into it: neither the row nor the time is known.
		out = Result{Verb: "prove", Gpubuild: r.Gpubuild, Command: r.Command}
	} else {
		var err error
		if out, err = readResult(r.Result); err != nil {
			return out, err
		}
		if out.Origin != nil { // a receipt has a hash in its place
			out.Origin.Machine = ""
		}
	}
	for i := range out.Programs {
		out.Programs[i].Proof = nil // as the receipts say, and no other way
	}
	for _, one := range append([]receipt.Receipt{r}, r.More...) {
		if !one.Evidence.Ran {
			continue
		}
		v, wrong := one.Recheck(real(one.Evidence))
		p := newProof(v, one.Evidence)
		if future := r.FromTheFuture(time.Now()); future != "" {
			wrong = append(wrong, future)
		}
		if len(wrong) > 0 && (one.Verdict.Kind == verify.Proved || v.Kind == verify.Proved) {
			p = &Proof{Verdict: verify.Unproved.String(), Why: "the receipt does not hold: " + wrong[0], Lines: p.Lines}
		}
		name := pathBase(one.Binary.Path)
		i := slices.IndexFunc(out.Programs, func(p Program) bool {
			return p.Proof == nil && pathBase(p.Path) == name && p.Test == one.Test
		})
		if i >= 0 {
			out.Programs[i].Proof = p
		} else {
			out.Programs = append(out.Programs, Program{Name: name, Test: one.Test, Path: one.Binary.Path, Code: one.Binary.Code, Proof: p})
		}
	}
	return out, nil
}

// pathBase is the last name of a path of either system: a receipt may be of another than this.
func pathBase(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }
