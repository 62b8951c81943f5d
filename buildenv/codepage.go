package buildenv

import (
	"strconv"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
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
	switch c {
	case 874:
		return charmap.Windows874
	case 932:
		return japanese.ShiftJIS
	case 936:
		return simplifiedchinese.GBK
	case 949:
		return korean.EUCKR
	case 950:
		return traditionalchinese.Big5
	case 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258:
		windows := [...]encoding.Encoding{
			charmap.Windows1250, charmap.Windows1251, charmap.Windows1252,
			charmap.Windows1253, charmap.Windows1254, charmap.Windows1255,
			charmap.Windows1256, charmap.Windows1257, charmap.Windows1258,
		}
		return windows[c-1250]
	}
	return nil // 65001, UTF-8, has everything; of others nothing is known
}
