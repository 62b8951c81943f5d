package cargo

import (
	"reflect"
	"strings"
	"testing"

	"gpubuild/buildenv"
)

func TestDiagnostics(t *testing.T) {
	const text = "   Compiling app v0.1.0 (/p)\n" +
		"warning: unused variable: `x`\n --> src/lib.rs:1:5\n  |\n" +
		"error[E0308]: mismatched types\n  --> src/main.rs:12:18\n   |\n12 |   let x: u8 = \"no\";\n   |          --   ^^^^ expected `u8`, found `&str`\n   |          |\n   |          expected due to this\n\n" +
		"error: as asked\r\n --> src\\main.rs:2:1\r\n" +
		"error: could not compile `app` (bin \"app\") due to 2 previous errors\n" +
		"\x1b[0m\x1b[1m\x1b[38;5;9merror[E0425]\x1b[0m\x1b[0m\x1b[1m: cannot find value\x1b[0m\n\x1b[0m \x1b[0m\x1b[0m\x1b[1m--> \x1b[0m\x1b[0mC:\\p\\a.rs:3:4\x1b[0m\n" +
		"    Building [====> ] 3/4: app\rerror[E0001]: after a bar\n --> b.rs:5:6\n" +
		"error[E0003]: a line beyond all numbers\n --> d.rs:99999999999999999999:1\n" +
		"error[E0002]: its place is not right below\nsomething else\n --> c.rs:7:8\n"
	want := []Diagnostic{
		{
			"error[E0308]: mismatched types",
			"E0308",
			"src/main.rs",
			12,
			18,
			4,
			"expected `u8`, found `&str`",
		}, {"error: as asked", "", `src\main.rs`, 2, 1, 0, ""},
		{"error[E0425]: cannot find value", "E0425", `C:\p\a.rs`, 3, 4, 0, ""}, {"error[E0001]: after a bar", "E0001", "b.rs", 5, 6, 0, ""},
	}
	for _, size := range []int{1, 7, len(text)} {
		var d Diagnostics
		lines := &buildenv.Lines{Each: d.Line}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if m, err := lines.Write([]byte(rest[:n])); m != n || err != nil {
				t.Fatal(m, err)
			}
			rest = rest[n:]
		}
		if !reflect.DeepEqual(d.Found, want) {
			t.Errorf("in pieces of %d: got %+v", size, d.Found)
		}
	}
	var d Diagnostics
	lines := &buildenv.Lines{Each: d.Line}
	_, _ = lines.Write([]byte("error: " + strings.Repeat("x", buildenv.LongestLine+1)))
	_, _ = lines.Write([]byte("\n --> a.rs:1:1\n"))
	_, _ = lines.Write([]byte(strings.Repeat("error: a\n --> a.rs:1:1\n", 100)))
	if len(d.Found) != maxDiagnostics || d.Found[0].Message != "error: a" {
		t.Errorf("got %d, first %.50q", len(d.Found), d.Found[0].Message)
	}
}
