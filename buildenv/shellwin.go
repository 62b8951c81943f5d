package buildenv

import (
	"fmt"
	"strings"
)

// cmdLine is the longest line that cmd.exe reads ("Command prompt line string limitation", Microsoft).
const cmdLine = 8191

// cmd writes for a batch file. Between double quotes only % and a further double quote are special; a double quote in the value ends the
// quoting, so that it is refused together with characters that would then act. Lines end in CR LF.
func (x exporter) cmd() (string, error) {
	var b strings.Builder
	for _, v := range x.vars {
		if err := x.text(v); err != nil {
			return "", err
		}
		switch {
		case strings.ContainsAny(v.name, `"%^&|<>!:*?`):
			return "", x.refuse(v, "cmd cannot set a variable of that name")
		case strings.ContainsAny(v.value, "\r\n"):
			return "", x.refuse(v, "cmd ends a command at a line break")
		case v.value == "" && !v.unset:
			return "", x.refuse(v, "cmd has no empty variables")
		case strings.Contains(v.value, `"`) && strings.ContainsAny(v.value, "&|<>^"):
			return "", x.refuse(v, `cmd cannot quote a value that holds " and one of & | < > ^`)
		case len(v.name)+len(v.value)+len(`@set "="`) > cmdLine: // a relative one is that long, too, once it is expanded
			return "", x.refuse(v, fmt.Sprintf("cmd reads no line of more than %d characters", cmdLine))
		}
		quote := func(s string) string { return strings.ReplaceAll(s, "%", "%%") }
		value := quote(v.value)
		// Where the variable is not set, %X% is nothing and the separator would stay: the current directory to some readers.
		if old := x.oldEnds(v); v.relative && old {
			list := append([]string(nil), v.before...)
			list = append(append(list, "\x00"), v.after...)
			value = strings.Replace(quote(x.host.JoinList(list...)), "\x00", "%"+v.name+"%", 1)
		}
		fmt.Fprintf(&b, "@set \"%s=%s\"\r\n", v.name, value)
	}
	text := b.String()
	for i := 0; i < len(text); i++ {
		if text[i] >= 0x80 {
			// The file is UTF-8 and cmd reads it in the console's code page, line for line: so change that for these lines.
			return "@for /f \"tokens=2 delims=:.\" %%a in ('chcp') do @set \"GPUBUILD_CODEPAGE=%%a\"\r\n@chcp 65001>nul\r\n" + text +
				"@chcp %GPUBUILD_CODEPAGE%>nul\r\n@set \"GPUBUILD_CODEPAGE=\"\r\n", nil
		}
	}
	return text, nil
}

// oldEnds says whether an old value stands in the list.
func (x exporter) oldEnds(v outcome) bool {
	n := len(x.host.JoinList(append(append([]string(nil), v.before...), v.after...)...))
	return len(v.value) > n
}

// pwsh writes for PowerShell.
func (x exporter) pwsh() (string, error) {
	var b strings.Builder
	for _, v := range x.vars {
		if err := x.text(v); err != nil {
			return "", err
		}
		name := "$env:" + v.name
		if !identifier(v.name) {
			name = "${env:" + v.name + "}"
		}
		switch {
		case strings.ContainsAny(v.name, "{}`*?[]"):
			return "", x.refuse(v, "PowerShell cannot set a variable of that name")
		case v.unset:
			fmt.Fprintf(&b, "Remove-Item -LiteralPath %s -ErrorAction SilentlyContinue\n", pwshQuote("Env:"+v.name))
		case v.value == "":
			return "", x.refuse(v, "PowerShell removes a variable that is set to nothing (before 7.5)")
		case !v.relative:
			fmt.Fprintf(&b, "%s = %s\n", name, pwshQuote(v.value))
		default:
			sep := x.host.ListSeparator()
			pre, post := x.host.JoinList(v.before...), x.host.JoinList(v.after...)
			parts := []string{}
			if pre != "" {
				parts = append(parts, pwshQuote(pre))
			}
			switch {
			case pre != "" && post != "":
				parts = append(parts, fmt.Sprintf("$(if (%s) { '%s' + %s })", name, sep, name), pwshQuote(sep+post))
			case pre != "":
				parts = append(parts, fmt.Sprintf("$(if (%s) { '%s' + %s })", name, sep, name))
			default:
				parts = append(parts, fmt.Sprintf("$(if (%s) { %s + '%s' })", name, name, sep), pwshQuote(post))
			}
			fmt.Fprintf(&b, "%s = %s\n", name, strings.Join(parts, " + "))
		}
	}
	return b.String(), nil
}
