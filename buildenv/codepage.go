package buildenv

import (
	"cmp"
	"fmt"
	"strconv"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// CodePage is the number of a Windows ANSI code page: programs that know no Unicode, nvcc.exe among them, get their paths and environment
// in it. 0 is none, on other systems, or one that is not known. Source: learn.microsoft.com, "Code Page Identifiers".
type CodePage int

// CodePage reads the machine's from the registry, where Windows takes it from when it starts.
func (h Host) CodePage() CodePage {
	if h.OS != Windows || h.Registry == nil {
		return 0
	}
	text, err := h.Registry.String(`HKLM\SYSTEM\CurrentControlSet\Control\Nls\CodePage`, "ACP", 64)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return CodePage(n)
}

// Lacks answers the first character of text that the code page has no place for, "" when it has all of them or is not known. What Windows
// then puts in its place names another file, or none.
func (c CodePage) Lacks(text string) string {
	e := c.encoding()
	if e == nil {
		return ""
	}
	encoder := e.NewEncoder()
	for _, r := range text {
		if r < 0x80 {
			continue
		}
		if _, err := encoder.String(string(r)); err != nil {
			return string(r)
		}
	}
	return ""
}

func (c CodePage) encoding() encoding.Encoding {
	name := map[CodePage]string{932: "shift_jis", 936: "gbk", 949: "euc-kr", 950: "big5"}[c]
	if e, err := htmlindex.Get(cmp.Or(name, fmt.Sprintf("windows-%d", c))); err == nil {
		return e
	}
	return nil // 65001, UTF-8, has everything; of others nothing is known
}
