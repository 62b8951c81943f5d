package proc

import "testing"

// TestBatchLine has the cases of Rust's std, library/std/tests/win_bat.rs and src/process/tests.rs, and the one that was seen.
func TestBatchLine(t *testing.T) {
	for _, tt := range []struct{ arg, want string }{
		{"plain", "plain"},
		{`C:\a\b.txt`, `C:\a\b.txt`},
		{"", `""`},
		{"two words", `"two words"`},
		{`x"&echo INJECTED&rem "`, `"x""&echo INJECTED&rem """`},
		{"&calc.exe", `"&calc.exe"`},
		{"a|b>c<d^e(f)", `"a|b>c<d^e(f)"`},
		{"!x!", `"!x!"`},
		{"%PATH%", `"%%cd:~,%PATH%%cd:~,%"`},
		{`test\"`, `"test\\"""`},
		{`ends\`, `"ends\\"`},
		{"a=b,c;d", `"a=b,c;d"`},
		{"日本", "日本"},
	} {
		got, err := batchLine(`C:\w.bat`, []string{tt.arg})
		if want := `cmd.exe /e:ON /v:OFF /d /c ""C:\w.bat" ` + tt.want + `"`; err != nil || got != want {
			t.Errorf("%q: got %s, %v; want %s", tt.arg, got, err, want)
		}
	}
	for _, bad := range []string{"a\nb", "a\rb", "a\x00b"} {
		if got, err := batchLine(`C:\w.bat`, []string{bad}); err == nil {
			t.Errorf("%q: got %s", bad, got)
		}
	}
	if _, err := batchLine("C:\\w\".bat", nil); err == nil {
		t.Error("a quote in the script's name")
	}
	for path, want := range map[string]bool{`C:\a.BAT`: true, "x.cmd": true, "x.bat. .": true, "x.exe": false, "bat": false} {
		if isBatch(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}
