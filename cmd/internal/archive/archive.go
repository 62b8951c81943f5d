// Package archive owns the file by which a program travels from the machine that compiled it to one with a GPU: gpubuild/archive/1.
//
// It is a tar file. Its first entry, manifest.json, says what the program is of and lists every other file with its size and SHA-256.
// What is
// unpacked is exactly what the manifest lists. The sums find damage and a mixture of two archives; whoever can write the file can also
// write
// its manifest.
package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"gpubuild/buildenv/exit"
	"gpubuild/cmd/internal/origin"
)

// Schema names the format that this package reads and writes.
const Schema = "gpubuild/archive/1"

// manifestName is the first entry.
const manifestName = "manifest.json"

// manifestLimit is the size up to which a manifest is read.
const manifestLimit = 4 << 20

// Manifest is what an archive says of itself.
type Manifest struct {
	Schema   string        `json:"schema"`
	Gpubuild string        `json:"gpubuild"` // the version that wrote it
	Origin   origin.Origin `json:"origin"`   // of the build; its row is the row that compiled
	Platform string        `json:"platform"`
	Program  string        `json:"program"`         // its path in the archive
	CUPTI    string        `json:"cupti,omitempty"` // empty: that of the machine is used
	Asked    Asked         `json:"asked"`
	Proofs   []Proof       `json:"proofs"` // the rows that prove it
	Files    []File        `json:"files"`
}

// Asked is what is asked of each proof.
type Asked struct {
	Kernel     string `json:"kernel,omitempty"` // a regular expression; empty: a matrix product
	ExpectExit int    `json:"expect_exit"`
}

// Proof is a row that proves the program somewhere.
type Proof struct {
	Row     string   `json:"row"`
	Args    []string `json:"args"`
	Wrapper []string `json:"wrapper"` // put before the command
}

// File is one file of the archive.
type File struct {
	Path   string `json:"path"` // below the archive's root, with slashes
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Run    bool   `json:"run,omitempty"` // it is executable
}

// Source is a file that goes into an archive.
type Source struct {
	Path string // in the archive
	From string
	Run  bool
}

// Proof is the proof of a row; false: the archive is of none.
func (m Manifest) Proof(row string) (Proof, bool) {
	for _, p := range m.Proofs {
		if p.Row == row {
			return p, true
		}
	}
	return Proof{}, false
}

// Sum is the SHA-256 of the manifest, which lists those of all files.
func (m Manifest) Sum() (string, error) {
	data, err := json.Marshal(m)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}

// Size is how many bytes the files have.
func (m Manifest) Size() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Write writes an archive of files, whole or not at all, and answers its manifest.
func Write(path string, m Manifest, sources []Source) (Manifest, error) {
	m.Schema, m.Files = Schema, []File{}
	for _, s := range sources {
		f, err := describe(s)
		if err != nil {
			return m, err
		}
		m.Files = append(m.Files, f)
	}
	head, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return m, err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".archive-*")
	if err != nil {
		return m, err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	w := tar.NewWriter(tmp)
	if err := entry(w, manifestName, 0o644, int64(len(head)), bytes.NewReader(head)); err != nil {
		return m, err
	}
	for i, s := range sources {
		in, err := os.Open(s.From)
		if err != nil {
			return m, err
		}
		sum := sha256.New()
		mode := int64(0o644)
		if s.Run {
			mode = 0o755
		}
		err = entry(w, s.Path, mode, m.Files[i].Size, io.TeeReader(in, sum))
		if err = errors.Join(err, in.Close()); err != nil {
			return m, fmt.Errorf("%s: %w", s.From, err)
		}
		if hex.EncodeToString(sum.Sum(nil)) != m.Files[i].SHA256 {
			return m, fmt.Errorf("%s changed while it was packed", s.From)
		}
	}
	if err := errors.Join(w.Close(), tmp.Chmod(0o644), tmp.Close()); err != nil {
		return m, err
	}
	return m, os.Rename(tmp.Name(), path)
}

func entry(w *tar.Writer, name string, mode, size int64, data io.Reader) error {
	h := &tar.Header{Name: name, Mode: mode, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(w, data)
	return err
}

func describe(s Source) (File, error) {
	in, err := os.Open(s.From)
	if err != nil {
		return File{}, err
	}
	defer in.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, in)
	return File{Path: s.Path, Size: n, SHA256: hex.EncodeToString(sum.Sum(nil)), Run: s.Run}, err
}

// damaged says that an archive is not what its manifest says, or is none: nothing was run.
func damaged(path, why string) error {
	return exit.Errorf(exit.Unproved, "make it again: gpubuild ci run ROW --only archive", "%s is not a whole archive: %s", path, why)
}

// Read reads the manifest of an archive.
func Read(path string) (Manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return Manifest{}, damaged(path, errorText(err))
	}
	defer f.Close()
	m, err := readManifest(tar.NewReader(f))
	if err != nil {
		return m, damaged(path, err.Error())
	}
	return m, nil
}

func errorText(err error) string {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

func readManifest(r *tar.Reader) (Manifest, error) {
	var m Manifest
	h, err := r.Next()
	if err != nil {
		return m, err
	}
	if h.Name != manifestName || h.Size > manifestLimit {
		return m, fmt.Errorf("its first entry is %.60q", h.Name)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return m, err
	}
	return parse(data)
}

func parse(data []byte) (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%s: %w", manifestName, err)
	}
	if m.Schema != Schema {
		return m, fmt.Errorf("its schema is %.60q; this gpubuild reads %s", m.Schema, Schema)
	}
	return m, nil
}

// Unpack writes the files of an archive below dir, which is empty, and compares each with the manifest.
func Unpack(path, dir string) (Manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return Manifest{}, damaged(path, errorText(err))
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return Verify(dir)
		}
		if err == nil && (h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name)) {
			err = fmt.Errorf("%.60q is no file below it", h.Name)
		}
		if err == nil {
			err = unpack(filepath.Join(dir, filepath.FromSlash(h.Name)), h.FileInfo().Mode().Perm(), r)
		}
		if err != nil {
			return Manifest{}, damaged(path, errorText(err))
		}
	}
}

func unpack(path string, mode os.FileMode, data io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, data)
	return errors.Join(err, f.Close())
}

// Verify compares the files below dir, which another program may have unpacked, with their manifest. A file that the manifest does not
// list is
// refused: a loader might take it.
func Verify(dir string) (Manifest, error) {
	wrong := func(format string, args ...any) error { return damaged(dir, fmt.Sprintf(format, args...)) }
	data, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return Manifest{}, wrong("%s: %s", manifestName, errorText(err))
	}
	m, err := parse(data)
	if err != nil {
		return m, wrong("%v", err)
	}
	listed := map[string]bool{manifestName: true}
	for _, want := range m.Files {
		listed[want.Path] = true
		if !filepath.IsLocal(want.Path) {
			return m, wrong("%.60q is no path below it", want.Path)
		}
		got, err := describe(Source{Path: want.Path, From: filepath.Join(dir, filepath.FromSlash(want.Path)), Run: want.Run})
		if err != nil {
			return m, wrong("%s: %s", want.Path, errorText(err))
		}
		if got != want {
			return m, wrong("%s has SHA-256 %.16s…, not %.16s…", want.Path, got.SHA256, want.SHA256)
		}
	}
	needed := []string{m.Program} // what a proof runs and loads
	if m.CUPTI != "" {
		needed = append(needed, m.CUPTI)
	}
	for _, name := range needed {
		if !listed[name] {
			return m, wrong("%.60q is not one of its files", name)
		}
	}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if name = filepath.ToSlash(name); err == nil && (!listed[name] || !d.Type().IsRegular()) {
			err = fmt.Errorf("%s is not one of its files", name)
		}
		return err
	})
	if err != nil {
		return m, wrong("%v", err)
	}
	return m, nil
}
