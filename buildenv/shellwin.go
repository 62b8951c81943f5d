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
	text, err := each(exporter.text, exporter.cmdSet)(x)
	if err != nil || strings.IndexFunc(text, func(r rune) bool { return r >= 0x80 }) < 0 {
		return text, err
	}
	// The file is UTF-8 and cmd reads it in the console's code page, line for line: so change that for these lines.
	return "@for /f \"tokens=2 delims=:.\" %%a in ('chcp') do @set \"GPUBUILD_CODEPAGE=%%a\"\r\n@chcp 65001>nul\r\n" + text +
		"@chcp %GPUBUILD_CODEPAGE%>nul\r\n@set \"GPUBUILD_CODEPAGE=\"\r\n", nil
}

func (x exporter) cmdSet(v outcome) (string, error) {
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
	if v.relative && x.oldEnds(v) {
		value = quote(x.host.JoinList(v.before...)) + x.host.ListSeparator() + "%" + v.name + "%"
	}
	return fmt.Sprintf("@set \"%s=%s\"\r\n", v.name, value), nil
}

// oldEnds reports whether an old value stands in the list.
func (x exporter) oldEnds(v outcome) bool {
	return len(v.value) > len(x.host.JoinList(v.before...))
}

// pwsh writes for PowerShell.
func (x exporter) pwsh(v outcome) (string, error) {
	name := "$env:" + v.name
	if !identifier(v.name) {
		name = "${env:" + v.name + "}"
	}
	switch {
	case strings.ContainsAny(v.name, "{}`*?[]"):
		return "", x.refuse(v, "PowerShell cannot set a variable of that name")
	case v.unset:
		return fmt.Sprintf("Remove-Item -LiteralPath %s -ErrorAction SilentlyContinue\n", pwshQuote("Env:"+v.name)), nil
	case v.value == "":
		return "", x.refuse(v, "PowerShell removes a variable that is set to nothing (before 7.5)")
	case !v.relative:
		return fmt.Sprintf("%s = %s\n", name, pwshQuote(v.value)), nil
	}
	before := pwshQuote(x.host.JoinList(v.before...))
	return fmt.Sprintf("%s = %s + $(if (%s) { '%s' + %s })\n", name, before, name, x.host.ListSeparator(), name), nil
}
