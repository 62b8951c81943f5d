package fatbin

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io"

	"gpubuild/buildenv"
)

// Objects are the hashes of the objects in an archive, or of what is none: of those that hold device code, and of the others.
type Objects struct {
	Device  []string `json:"device,omitempty"`
	Host    []string `json:"host,omitempty"`
	Program bool     `json:"program,omitempty"`
}

// DeviceObjects are the hashes of the objects with device code in a file with some hash, if it is an archive.
func DeviceObjects(h buildenv.Host, path, whole string) (objects []string, archive bool) {
	report, err := ScanFile(h, path)
	if err != nil || len(report.Members) == 0 {
		return nil, false
	}
	return report.Objects(h, path, whole).Device, true
}

// Objects looks for them in the file with some hash that the report is of. Device code of which no hash is known has an empty one.
func (rep *Report) Objects(h buildenv.Host, path, whole string) (o Objects) {
	file, err := h.Files.Open(path)
	if err == nil {
		defer file.Close()
	}
	at, ok := file.(io.ReaderAt)
	seen := 0
	for _, m := range append(rep.Members, Member{Size: rep.Size})[:max(1, len(rep.Members))] {
		if !ok {
			break
		}
		images := 0
		for _, im := range rep.Images {
			if im.Offset >= m.From && im.Offset < m.From+m.Size {
				images++
			}
		}
		seen += images
		part, sum := io.NewSectionReader(at, m.From, m.Size), whole
		object, err := elf.NewFile(part)
		if images == 0 && err != nil { // a table of the archive, or a file of another kind
			continue
		}
		if len(rep.Members) > 0 {
			all := sha256.New()
			_, _ = io.Copy(all, part) // what cannot be read has a hash that nothing else has
			sum = hex.EncodeToString(all.Sum(nil))
		}
		if images > 0 {
			o.Device = append(o.Device, sum)
		} else {
			o.Host = append(o.Host, sum)
		}
		if err == nil && object.Machine != elf.EM_CUDA {
			flags, _ := object.DynValue(elf.DT_FLAGS_1) // a library has none
			o.Program = o.Program || object.Type == elf.ET_EXEC || len(flags) > 0 && flags[0]&uint64(elf.DF_1_PIE) != 0
		}
	}
	if seen < len(rep.Images) {
		o.Device = append(o.Device, "")
	}
	return o
}
