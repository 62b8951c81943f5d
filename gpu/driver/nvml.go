package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"gpubuild/buildenv"
	"gpubuild/gpu"
)

// ChildWord is the word with which gpubuild starts itself to ask NVML; it is no part of the command line.
const ChildWord = "__gpubuild-nvml"

const (
	watchWord   = "watch"
	libraryName = "libnvidia-ml.so.1"
	replySchema = "gpubuild/nvml/1"
)

// reply is what a source says of the driver, and a line of the child.
type reply struct {
	Schema  string       `json:"schema"`
	Driver  string       `json:"driver,omitempty"`
	CUDA    gpu.Version  `json:"cuda"` // zero: it does not say
	Devices []gpu.Device `json:"devices,omitempty"`
	Samples []gpu.Sample `json:"samples,omitempty"`
	Notes   []string     `json:"notes,omitempty"`
	Error   string       `json:"error,omitempty"`
}

// nvmlSource asks the driver's library in a child of our own.
type nvmlSource struct {
	host buildenv.Host
	self string
}

func (nvmlSource) name() string { return "NVML" }

func (n nvmlSource) list(ctx context.Context, run buildenv.Runner) (reply, error) {
	res, err := run.Run(ctx, buildenv.Cmd{
		Path: n.self, Args: []string{ChildWord}, Env: n.host.Env.Entries(), Timeout: StartTimeout, Limit: answerLimit,
	})
	for line := range bytes.Lines(res.Stdout) {
		if r, ok := readReply(line); ok && r.Error != "" {
			return reply{}, errors.New(r.Error)
		} else if ok && err == nil {
			return r, nil
		}
	}
	if err == nil {
		err = errors.New("it ended without an answer")
	}
	return reply{}, err
}

func (n nvmlSource) watch() buildenv.Cmd {
	return buildenv.Cmd{Path: n.self, Args: []string{ChildWord, watchWord}, Env: n.host.Env.Entries(), Limit: answerLimit}
}

func (nvmlSource) samples(line []byte) ([]gpu.Sample, error) {
	r, _ := readReply(line)
	if r.Error == errNoGPU.Error() {
		return nil, errNoGPU
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	return r.Samples, nil
}

// readReply reads a line of the child; what the driver's library itself writes is none.
func readReply(line []byte) (r reply, ok bool) {
	if json.Unmarshal(line, &r) != nil || r.Schema != replySchema || len(r.Devices) > maxDevices {
		return reply{}, false
	}
	return r, true
}
