package explain

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
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
	`\b(CUDA_ERROR_\w+|cudaError[A-Z]\w+|(CUBLAS|CUDNN|CURAND|CUSOLVER|CUSPARSE)_STATUS_\w+|(NVML|NVRTC)_ERROR_\w+|CUFFT_\w+|nccl(Unhandled|System|Internal|Invalid|Remote)[A-Z]\w+)\b`,
)

// statuses is the table by name; a driver's code is there by its number, too, and so is what its run-time library has alone.
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
		if own := strings.HasPrefix(s.Name, "CUDA_ERROR_"); own || strings.HasPrefix(s.Name, "cudaError") && table[f[1]] == nil {
			table[f[1]] = s
		}
		if library, _, ok := strings.Cut(strings.ToLower(s.Name), "_"); ok {
			table[library+" "+f[1]] = s
		}
	}
	for before, now := range map[string]string{"30": "999", "38": "100", "48": "209", "77": "700"} { // before CUDA 10.1
		table[before] = cmp.Or(table[before], table[now])
	}
	for i, name := range strings.Fields("NOT_INITIALIZED ALLOC_FAILED BAD_PARAM INTERNAL_ERROR INVALID_VALUE ARCH_MISMATCH MAPPING_ERROR " +
		"EXECUTION_FAILED NOT_SUPPORTED LICENSE_ERROR RUNTIME_PREREQUISITE_MISSING RUNTIME_IN_PROGRESS RUNTIME_FP_OVERFLOW") { // before cuDNN 9
		s := &Status{Name: "CUDNN_STATUS_" + name, Code: i + 1, Header: "cudnn_ops_infer.h 8.9"}
		table[fmt.Sprint("cudnn ", i+1)], table[strings.ToLower(s.Name)] = s, cmp.Or(table[strings.ToLower(s.Name)], s)
	}
	for i, name := range strings.Fields("UnhandledCudaError SystemError InternalError InvalidArgument InvalidUsage RemoteError") {
		s := &Status{Name: "nccl" + name, Code: i + 1, Header: "nccl.h 2.28"}
		table[fmt.Sprint("nccl ", i+1)], table[strings.ToLower(s.Name)] = s, s
	}
	return table
})

// LookupStatus finds a status by its name, in any case of letters, or a driver's by its number; nil where there is none.
func LookupStatus(name string) *Status { return statuses()[strings.ToLower(name)] }

var runtimeName = lazyregexp.New(`[‘'"]?\bcudaError[A-Z]\w+`) // behind a quote it is a name in source, of which a compiler speaks

// statusNumber is a status that a line gives by its number alone.
var statusNumber = lazyregexp.New(
	`(\b(DriverError|CudaError)\(|\bcudaError(?:_enum|_t)?[ :=(]{1,2}|\bcuda(?:_status|Status| status code)[ :=(]{1,2}|\b(?:cudart|nvcuda|cuda driver library) init (?:failure|err(?:or)?): |\b(?i:CUresult)[ :=(]{1,2}|\b(CUDA|Cuda|cuda)(RT)?( \w+)? (?i:error|failure|failed with (?:error|code|status))( in \w+:| with error| code|;? status:)?[ :=#(]{1,3}|` +
		`\b(cuda[A-Z]\w+|cu(Init|Ctx|Mem|Module|Device|Launch|Stream|Event|Func|Driver|Link|Library|Graph|Primary)\w*)(\([^)]*\))? ` +
		`(=|returned|failed|error|err|status)( with)?( error| status)?( code)?[ :=#(]{1,3})(\d{1,3})\b`)

// libraryNumber is the same of a library; how many of something there are is none.
var libraryNumber = lazyregexp.New(`(?i)\b(cublas|curand|cusolver|cusparse|cudnn|cufft|nvrtc|nvml|nccl)\w*(?:\([^)\n]*\))?(?: \w+)?[ _:]{0,2}` +
	`(?:(?:error|status|failure|returned|failed with)(?:_t)?(?: error| code| status| result)*[ :=(#]{1,3}|failed ?[:(] ?)(\d{1,4})(?:\W*$|[^\w. ]| (?:\(|at |in |for |when |while |on |-))`)

// statusByNumber replaces the number of what statusNumber matched; one that cudaGetDeviceCount returned may be how many there are.
func statusByNumber(said []byte) []byte {
	at := bytes.LastIndexAny(said, " :=#(") + 1
	counts := len(said)-at < 2 && bytes.Contains(said, []byte("Count")) && bytes.ContainsAny(said, "=ue")
	if s := LookupStatus(string(said[at:])); s != nil && !counts {
		return append(bytes.Clone(said[:at]), s.Name...)
	}
	return said
}

// otherNumber is the number of a status behind CUDA_ERROR_UNKNOWN, from a program that has no name for it.
var otherNumber = lazyregexp.New(`\bCUDA_ERROR_UNKNOWN"?[ ,(]{1,3}(code|error|status)?[ :=]{0,2}\d{3}\b`)

// asserted is a status that an assertion of Rust compares with success; its message names a function.
var asserted = lazyregexp.New("(assertion [^\\n]*failed: [^\\n]*\\b(?:cu[A-Z]|cuda)\\w*[^\\n]*\\n\\s*left: `?)([1-9]\\d{0,2})(`?,?\\s*\\n\\s*right: `?0\\b)")

// cudaWords are in every line that driverNames changes.
var cudaWords = bytes.Split([]byte("uda|CUDA|DriverError(|cuInit|cuCtx|cuMem|cuModule|cuDevice|cuLaunch|cuStream|cuEvent|cuFunc|cuDriver|"+
	"cuLi|cuGraph|cuPrimary|CUresult|cuResult|curesult|cublas|CUBLAS|cuBLAS|cusolver|cuSOLVER|cusparse|cuSPARSE|curand|cuRAND|CURAND|CUSOLVER|CUSPARSE|"+
	"cudnn|cuDNN|CUDNN|cuDnn|cufft|cuFFT|CUFFT|nvrtc|NVRTC|nvml|NVML|Nvml|nccl|NCCL"), []byte("|"))

// waitStatus is how Rust's debug form says how a process ended.
var waitStatus = lazyregexp.New(`unix_wait_status\((\d{1,5})\)`)

// exitStatus says it as Rust's display form does.
func exitStatus(debug []byte) []byte {
	n, _ := strconv.Atoi(string(waitStatus.FindSubmatch(debug)[1]))
	if n&0x7f != 0 {
		return fmt.Appendf(nil, "signal: %d", n&0x7f)
	}
	return fmt.Appendf(nil, "exit status: %d", n>>8)
}

// driverNames names the statuses of CUDA in a text as the driver does: those of CUDA's run-time library, and those that a line gives by
// their number alone. So a rule needs to know one. How a process ended is said in one form, too, and GNU's tools speak English.
func driverNames(text []byte) []byte {
	out := make([]byte, 0, len(text))
	if bytes.Contains(text, []byte("left: ")) {
		text = asserted.ReplaceAll(text, []byte("${1}CUDA error $2$3"))
	}
	for line := range bytes.Lines(text) {
		line = inEnglish(line)
		if bytes.Contains(line, []byte("unix_wait_status(")) {
			line = waitStatus.ReplaceAllFunc(line, exitStatus)
		}
		if hasAny(line, cudaWords) {
			line = statusNumber.ReplaceAllFunc(line, statusByNumber)
			if n := libraryNumber.FindSubmatchIndex(line); n != nil && !bytes.Contains(line[n[0]:n[4]], []byte("Count")) {
				if s := LookupStatus(string(line[n[2]:n[3]]) + " " + string(line[n[4]:n[5]])); s != nil {
					line = append(append(bytes.Clone(line[:n[4]]), s.Name...), line[n[5]:]...)
				}
			}
			line = otherNumber.ReplaceAllFunc(line, func(said []byte) []byte {
				return []byte(cmp.Or(LookupStatus(string(said[len(said)-3:])), &Status{Name: string(said)}).Name)
			})
			line = runtimeName.ReplaceAllFunc(line, func(name []byte) []byte {
				s := cmp.Or(LookupStatus(string(name)), &Status{Code: -1})
				return []byte(cmp.Or(LookupStatus(strconv.Itoa(s.Code)), &Status{Name: string(name)}).Name)
			})
		}
		out = append(out, line...)
	}
	return out
}

// statusIn returns the first status that a line names.
func statusIn(line []byte) *Status {
	for _, name := range statusName.FindAllString(string(statusNumber.ReplaceAllFunc(line, statusByNumber)), -1) {
		if s := LookupStatus(name); s != nil {
			return s
		}
	}
	return nil
}
