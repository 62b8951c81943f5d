package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpubuild/buildenv"
	"gpubuild/gpu"
)

const (
	answerLimit = 1 << 20
	maxDevices  = 1024

	smiFields = "index,uuid,name,compute_cap,memory.total,driver_version" // compute_cap came with R510
)

// SMICmd is the command that asks nvidia-smi.
func SMICmd(h buildenv.Host, smi, fields string) buildenv.Cmd {
	return buildenv.Cmd{
		Path: smi, Args: []string{"--query-gpu=" + fields, "--format=csv,noheader,nounits"},
		Env: h.Env.Entries(), Timeout: StartTimeout, Limit: answerLimit,
	}
}

// answer is what nvidia-smi says.
type answer struct {
	driver  string
	devices []gpu.Device
	notes   []string
}

func askSMI(ctx context.Context, h buildenv.Host, run buildenv.Runner, smi string) (answer, error) {
	res, err := run.Run(ctx, SMICmd(h, smi, smiFields))
	if err != nil {
		var exit *buildenv.ExitError
		// Its complaints go to stdout.
		said := firstLine(string(res.Stdout), 300)
		if said == "" || !errors.As(err, &exit) || exit.Result.TimedOut {
			return answer{}, err
		}
		// Of one GPU's trouble it warns after all answers: 14 is a corrupted infoROM.
		if a, bad := parseSMI(string(res.Stdout)); bad == nil && len(a.devices) > 0 {
			a.notes = append(a.notes, fmt.Sprintf("nvidia-smi: exit status %d", exit.Result.Code))
			return a, nil
		}
		return answer{}, fmt.Errorf("exit status %d: %s", exit.Result.Code, said)
	}
	return parseSMI(string(res.Stdout))
}

// parseSMI reads a line for each GPU. What a field says in brackets ("[N/A]", "[Unknown Error]") is no value. A line that is not of the
// form is noted; when no line is, and there are some, that is an error.
func parseSMI(out string) (answer, error) {
	var a answer
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
		if err != nil || index < 0 || len(a.devices) >= maxDevices {
			bad = line
			continue
		}
		d.Index = index
		if c, err := gpu.ParseCapability(tail[0]); err == nil && strings.Contains(tail[0], ".") {
			d.Capability = c
		} else {
			a.notes = append(a.notes, fmt.Sprintf("GPU %d: nvidia-smi reports no compute capability", index))
		}
		if mib, err := strconv.ParseUint(tail[1], 10, 40); err == nil {
			d.Memory = mib << 20
		}
		if gpu.Numbers(tail[2]) != nil {
			a.driver = tail[2]
		}
		a.devices = append(a.devices, d)
	}
	slices.SortStableFunc(a.devices, func(a, b gpu.Device) int { return a.Index - b.Index })
	if bad != "" {
		if len(a.devices) == 0 {
			return answer{}, fmt.Errorf("an answer of another form: %s", firstLine(bad, 200))
		}
		a.notes = append(a.notes, "nvidia-smi: a line of another form: "+firstLine(bad, 200))
	}
	return a, nil
}
