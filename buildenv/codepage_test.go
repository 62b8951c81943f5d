package buildenv_test

import (
	"testing"

	"gpubuild/buildenv"
	"gpubuild/buildenv/hosttest"
)

func TestCodePage(t *testing.T) {
	for _, tt := range []struct {
		page  buildenv.CodePage
		text  string
		lacks string
	}{
		{1252, `C:\Users\u\AppData`, ""},
		{1252, `C:\Users\Jürgen\AppData`, ""},
		{1252, `C:\Users\Дмитрий\AppData`, "Д"},
		{1252, `C:\Users\Paweł`, "ł"}, // Windows would look for Pawel
		{1250, `C:\Users\Paweł`, ""},
		{1251, `C:\Users\Дмитрий`, ""},
		{932, `C:\Users\田中`, ""},
		{936, `C:\Users\张伟`, ""},
		{949, `C:\Users\지훈`, ""},
		{950, `C:\Users\張偉`, ""},
		{1252, `C:\Users\张伟`, "张"},
		{65001, `C:\Users\张伟`, ""},
		{0, `C:\Users\张伟`, ""},
	} {
		if got := tt.page.Lacks(tt.text); got != tt.lacks {
			t.Errorf("%d, %s: %q, want %q", tt.page, tt.text, got, tt.lacks)
		}
	}
	for text, want := range map[string]buildenv.CodePage{
		"os: windows\narch: amd64\n-- @registry --\n[HKLM\\SYSTEM\\CurrentControlSet\\Control\\Nls\\CodePage]\nACP=1251\n": 1251,
		"os: windows\narch: amd64\n-- @registry --\n[HKLM\\SYSTEM\\CurrentControlSet\\Control\\Nls\\CodePage]\nACP=x\n":    0,
		"os: windows\narch: amd64\n": 0,
		"os: linux\narch: amd64\n":   0,
	} {
		h, err := hosttest.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := h.CodePage(); got != want {
			t.Errorf("%d, want %d:\n%s", got, want, text)
		}
	}
}
