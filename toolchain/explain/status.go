package explain

import (
	"cmp"
	_ "embed"
	"strconv"
	"strings"
	"sync"

	"gpubuild/buildenv/lazyregexp"
)

//go:embed statuses.tsv
var statusText string

// Status is a result code of CUDA or one of its libraries, as its header defines it.
type Status struct {
	Name    string `json:"name"`
	Code    int    `json:"code"`
	Header  string `json:"header"`            // where it was read: cuda.h 13.4
	Meaning string `json:"meaning,omitempty"` // what the header says of it
}

var statusName = lazyregexp.New(
	`\b(CUDA_ERROR_\w+|cudaError[A-Z]\w+|(CUBLAS|CUDNN|CURAND|CUSOLVER|CUSPARSE)_STATUS_\w+|(NVML|NVRTC)_ERROR_\w+|CUFFT_\w+)\b|` +
		`\bDriverError\((\d+), `,
)

// statuses is the table by name; a driver's code is there by its number, too.
var statuses = sync.OnceValue(func() map[string]*Status {
	table := map[string]*Status{}
	for line := range strings.Lines(statusText) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 {
			continue // the heading
		}
		code, err := strconv.Atoi(f[1])
		if err != nil {
			panic("statuses.tsv: " + err.Error())
		}
		s := &Status{f[0], code, f[2], f[3]}
		table[strings.ToLower(s.Name)] = s
		if strings.HasPrefix(s.Name, "CUDA_ERROR_") {
			table[f[1]] = s
		}
	}
	return table
})

// LookupStatus finds a status by its name, in any case of letters, or a driver's by its number; nil where there is none.
func LookupStatus(name string) *Status { return statuses()[strings.ToLower(name)] }

var runtimeName = lazyregexp.New(`[‘'"]?\bcudaError[A-Z]\w+`) // behind a quote it is a name in source, of which a compiler speaks

// driverNames names the statuses of CUDA's run-time library in a text as the driver names the same code, so that a rule needs to know one.
func driverNames(text string) string {
	return runtimeName.ReplaceAllStringFunc(text, func(name string) string {
		s := cmp.Or(LookupStatus(name), &Status{Code: -1})
		return cmp.Or(LookupStatus(strconv.Itoa(s.Code)), &Status{Name: name}).Name
	})
}

// statusIn returns the first status that a line names.
func statusIn(line []byte) *Status {
	for _, m := range statusName.FindAllSubmatch(line, -1) {
		name := cmp.Or(string(m[1]), string(m[len(m)-1]))
		if s := LookupStatus(name); s != nil {
			return s
		}
	}
	return nil
}
