package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/buildenv/lazyregexp"
	"gpubuild/gpu"
)

const (
	answerLimit = 1 << 20
	maxDevices  = 1024

	smiFields = "index,uuid,name,compute_cap,memory.total,driver_version" // compute_cap came with R510
)

func smiCmd(h buildenv.Host, smi, fields string) buildenv.Cmd {
	return buildenv.Cmd{
		Path: smi, Args: []string{"--query-gpu=" + fields, "--format=csv,noheader,nounits"},
		Env: h.Env.Entries(), Timeout: StartTimeout, Limit: answerLimit,
	}
}

// smiSource asks nvidia-smi, which every driver brings.
type smiSource struct {
	host buildenv.Host
	path string
}

func (smiSource) name() string { return "nvidia-smi" }

func (s smiSource) list(ctx context.Context, run buildenv.Runner) (reply, error) {
	res, err := run.Run(ctx, smiCmd(s.host, s.path, smiFields))
	a, bad := parseSMI(string(res.Stdout))
	if err != nil {
		said := firstLine(string(res.Stdout), 300) // its complaints go to stdout
		switch exit, ended := errors.AsType[*buildenv.ExitError](err); {
		case said == "" || !ended || exit.Result.TimedOut:
			return reply{}, err
		case bad != nil || len(a.Devices) == 0:
			return reply{}, fmt.Errorf("exit status %d: %s", exit.Result.Code, said)
		default: // of one GPU's trouble it warns after all answers: 14 is a corrupted infoROM
			a.Notes = append(a.Notes, fmt.Sprintf("nvidia-smi: exit status %d", exit.Result.Code))
		}
	}
	return s.withCUDA(ctx, run, a), bad
}

// cudaLine is the driver's CUDA version as nvidia-smi -q has it; since R610 the old name has a text in place of a version.
var cudaLine = lazyregexp.New(`(?m)^CUDA (?:UMD )?Version\s*:\s*(\d+\.\d+)\s*$`)

// withCUDA asks for the CUDA version of a driver that our table does not have.
func (s smiSource) withCUDA(ctx context.Context, run buildenv.Runner, a reply) reply {
	if known, _ := Supports(tableOf(s.host), a.Driver); a.Driver == "" || !known.IsZero() {
		return a
	}
	res, err := run.Run(ctx, s.temperatures())
	if m := cudaLine.FindSubmatch(res.Stdout); err == nil && m != nil {
		a.CUDA, _ = gpu.ParseVersion(string(m[1])) // the form is the pattern's
	}
	return a
}

// temperatures is the shortest of nvidia-smi's full answers, whose head has the CUDA version.
func (s smiSource) temperatures() buildenv.Cmd {
	c := smiCmd(s.host, s.path, "")
	c.Args = []string{"-q", "-d", "TEMPERATURE"}
	return c
}

// parseSMI reads a line for each GPU. What a field says in brackets ("[N/A]", "[Unknown Error]") is no value. A line that is not of the
// form is noted; when no line is, and there are some, that is an error.
func parseSMI(out string) (reply, error) {
	var a reply
	bad := ""
	for _, line := range strings.Split(out, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "No devices were found") {
			continue
		}
		f := strings.Split(line, ",")
		for i := range f {
			if f[i] = strings.TrimSpace(f[i]); strings.HasPrefix(f[i], "[") {
				f[i] = ""
			}
		}
		if len(f) < 6 {
			bad = line
			continue
		}
		name, tail := f[2:len(f)-3], f[len(f)-3:] // a name may have commas
		d := gpu.Device{UUID: f[1], Name: strings.Join(name, ", ")}
		index, err := strconv.Atoi(f[0])
		if err != nil || index < 0 || len(a.Devices) >= maxDevices {
			bad = line
			continue
		}
		d.Index = index
		if c, err := gpu.ParseCapability(tail[0]); err == nil && strings.Contains(tail[0], ".") {
			d.Capability = c
		} else {
			a.Notes = append(a.Notes, fmt.Sprintf("GPU %d: nvidia-smi reports no compute capability", index))
		}
		if mib, err := strconv.ParseUint(tail[1], 10, 40); err == nil {
			d.Memory = mib << 20
		}
		if gpu.Numbers(tail[2]) != nil {
			a.Driver = tail[2]
		}
		a.Devices = append(a.Devices, d)
	}
	slices.SortStableFunc(a.Devices, func(a, b gpu.Device) int { return a.Index - b.Index })
	if bad != "" {
		if len(a.Devices) == 0 {
			return reply{}, fmt.Errorf("an answer of another form: %s", firstLine(bad, 200))
		}
		a.Notes = append(a.Notes, "nvidia-smi: a line of another form: "+firstLine(bad, 200))
	}
	return a, nil
}
