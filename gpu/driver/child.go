package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"gpubuild/buildenv"
)

// ChildArg is the only argument of the re-executed child; the program then does nothing but exit with ChildMain's code.
const ChildArg = "__gpubuild-nvml"

// Exit codes of the child.
const (
	childDone        = 0
	childFailed      = 1 // NVML said no; the answer says why
	childUnsupported = 3 // built without NVML
)

const (
	childSchema = "gpubuild/nvml/1"
	childLimit  = 1 << 20
	maxDevices  = 1024
)

// ChildMain asks NVML and writes the answer as one line of JSON; it answers the exit code. It may hang or not come back at all.
func ChildMain(w io.Writer) int {
	data, code := ask().encode()
	if _, err := w.Write(data); err != nil {
		return childFailed
	}
	if !builtIn {
		return childUnsupported
	}
	return code
}

// ChildCmd is the command that asks NVML. dir is added to where the loader looks for the library; it may be empty.
func ChildCmd(h buildenv.Host, self, dir string) buildenv.Cmd {
	env := h.Env
	if dir != "" {
		var d buildenv.Delta
		d.Add(buildenv.Append, "LD_LIBRARY_PATH", dir, "the driver's libraries lie there")
		env = h.Apply(env, d)
	}
	return buildenv.Cmd{Path: self, Args: []string{ChildArg}, Env: env.Entries(), Timeout: Timeout, Limit: childLimit}
}

func askChild(ctx context.Context, run runner, c buildenv.Cmd) (answer, error) {
	res, err := run.Run(ctx, c)
	a, found := parseAnswer(res.Stdout)
	switch {
	case found && a.Error != "":
		return answer{}, errors.New(a.Error)
	case err != nil:
		return answer{}, err
	case !found:
		return answer{}, errors.New("the child ended without an answer")
	}
	return a, nil
}

// parseAnswer reads the child's last line; a library may have written its own ones before.
func parseAnswer(out []byte) (answer, bool) {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var a answer
	if err := json.Unmarshal(lines[len(lines)-1], &a); err != nil || a.Schema != childSchema || len(a.Devices) > maxDevices {
		return answer{}, false
	}
	return a, true
}

// encode writes an answer as parseAnswer reads it and answers the child's exit code.
func (a answer) encode() ([]byte, int) {
	a.Schema = childSchema
	data, err := json.Marshal(a)
	if err != nil {
		return []byte(fmt.Sprintf("{\"schema\":%q,\"error\":\"no JSON\"}\n", childSchema)), childFailed
	}
	if a.Error != "" {
		return append(data, '\n'), childFailed
	}
	return append(data, '\n'), childDone
}

func firstLine(s string, limit int) string {
	s = strings.TrimSpace(s)
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		first, rest := s[:i], strings.TrimSpace(s[i:])
		if strings.HasSuffix(strings.TrimSpace(first), ":") { // "nvidia-smi: exit status 9:" and what it said
			first += " " + firstLine(rest, limit)
		}
		s = first
	}
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}
