package report_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gpubuild/buildenv/hosttest/need"
)

// browser is a headless Chromium that is spoken to by its DevTools protocol through a pipe: no port, no library.
type browser struct {
	t       testing.TB
	to      io.WriteCloser
	from    *bufio.Reader
	next    int
	session string
	heard   []event
}

type event struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// openBrowser starts Chromium; it ends with the test.
func openBrowser(t testing.TB) *browser {
	t.Helper()
	if runtime.GOOS == "windows" {
		need.Missing(t, "browser", "it is spoken to through inherited pipes, which is not tried on Windows")
	}
	path := need.Tool(t, "browser")
	theirIn, ourOut, err := os.Pipe()
	noError(t, err)
	ourIn, theirOut, err := os.Pipe()
	noError(t, err)
	c := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	c.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	noError(t, c.Start())
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, to: ourOut, from: bufio.NewReaderSize(ourIn, 1<<20)}
	stuck := time.AfterFunc(2*time.Minute, func() { _ = c.Process.Kill() })
	t.Cleanup(func() {
		stuck.Stop()
		b.ask("Browser.close", nil, nil)
		ourOut.Close()
		ourIn.Close()
		_ = c.Wait()
	})
	var target struct{ TargetID string }
	b.ask("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.ask("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.session = session.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.ask(domain+".enable", nil, nil)
	}
	return b
}

// ask sends a command and waits for its answer; events that come meanwhile are kept.
func (b *browser) ask(method string, params, into any) {
	b.t.Helper()
	b.next++
	m := map[string]any{"id": b.next, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" && !strings.HasPrefix(method, "Browser.") && !strings.HasPrefix(method, "Target.") {
		m["sessionId"] = b.session
	}
	data, err := json.Marshal(m)
	noError(b.t, err)
	if _, err := b.to.Write(append(data, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	for {
		id, answer := b.read(method)
		if id != b.next {
			continue
		}
		if into != nil {
			noError(b.t, json.Unmarshal(answer, into))
		}
		return
	}
}

func (b *browser) read(waiting string) (int, json.RawMessage) {
	b.t.Helper()
	data, err := b.from.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("%s: the browser is gone: %v", waiting, err)
	}
	var m struct {
		ID     int
		Result json.RawMessage
		Error  *struct{ Message string }
		event
	}
	noError(b.t, json.Unmarshal(data[:len(data)-1], &m))
	if m.Error != nil {
		b.t.Fatalf("%s: %s", waiting, m.Error.Message)
	}
	if m.Method != "" {
		b.heard = append(b.heard, m.event)
	}
	return m.ID, m.Result
}

// await waits for an event.
func (b *browser) await(method string) {
	b.t.Helper()
	for {
		for i, e := range b.heard {
			if e.Method == method {
				b.heard = append(b.heard[:i:i], b.heard[i+1:]...)
				return
			}
		}
		b.read(method)
	}
}

// open loads a file, as wide as a screen, in a scheme of colours.
func (b *browser) open(file string, width int, scheme string) {
	b.t.Helper()
	b.heard = nil
	b.ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	b.ask("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	var went struct{ ErrorText string }
	b.ask("Page.navigate", map[string]any{"url": (&url.URL{Scheme: "file", Path: file}).String()}, &went)
	if went.ErrorText != "" {
		b.t.Fatal(went.ErrorText)
	}
	b.await("Page.loadEventFired")
}

// eval returns the value of an expression, or of a promise of it.
func (b *browser) eval(expression string, into any) {
	b.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.ask("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s %s", expression, r.ExceptionDetails.Text, r.ExceptionDetails.Exception.Description)
	}
	if err := json.Unmarshal(r.Result.Value, into); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
}

// complaints are what the console, the policy or the network would show to a reader who opens the tools.
func (b *browser) complaints(file string) []string {
	b.t.Helper()
	var dummy int
	b.eval("1", &dummy) // what is still on its way
	var out []string
	for _, e := range b.heard {
		switch e.Method {
		case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
			out = append(out, string(e.Params))
		case "Network.requestWillBeSent":
			var r struct{ Request struct{ URL string } }
			if json.Unmarshal(e.Params, &r) == nil && !strings.HasSuffix(r.Request.URL, filepath.Base(file)) {
				out = append(out, "asks for "+r.Request.URL)
			}
		}
	}
	return out
}

// picture writes a screenshot of the whole page where GPUBUILD_TEST=screenshots=DIR says.
func (b *browser) picture(name string) {
	b.t.Helper()
	dir := need.Given("screenshots")
	if dir == "" {
		return
	}
	var shot struct{ Data []byte }
	b.ask("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	noError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), shot.Data, 0o644))
}

// contrasts lists visible text whose contrast is below that of WCAG 2.1, AA for small text (4.5), and how much text was looked at.
const contrasts = `(() => {
  const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return {r: m[0], g: m[1], b: m[2], a: m.length > 3 ? m[3] : 1}; };
  const lin = v => { v /= 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4); };
  const lum = c => 0.2126 * lin(c.r) + 0.7152 * lin(c.g) + 0.0722 * lin(c.b);
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a === 1) return c; if (c.a !== 0) throw new Error("half transparent"); } return {r: 255, g: 255, b: 255}; };
  const bad = []; let looked = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const n = walk.currentNode, e = n.parentElement;
    if (!n.textContent.trim() || ["SCRIPT", "STYLE"].includes(e.tagName) || !e.checkVisibility()) continue;
    const s = getComputedStyle(e), a = lum(parse(s.color)), b = lum(behind(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    looked++;
    if (ratio < 4.5 || parse(s.color).a !== 1 || s.opacity !== "1") bad.push(ratio.toFixed(2) + " " + n.textContent.trim().slice(0, 40));
  }
  return {looked, bad, back: getComputedStyle(document.body).backgroundColor};
})()`

// overflows lists elements that stand out of the window.
const overflows = `(() => {
  const out = [], w = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > w) out.push("the page is " + document.documentElement.scrollWidth + " wide in " + w);
  for (const e of document.querySelectorAll("body *")) {
    if (!e.checkVisibility() || e.closest("thead, .scroll")) continue;
    const r = e.getBoundingClientRect();
    if (r.width > 0 && (r.right > w + 0.5 || r.left < -0.5)) out.push(e.tagName + "." + e.className + " " + r.left + "–" + r.right + ": " + e.textContent.slice(0, 40));
  }
  return out;
})()`
