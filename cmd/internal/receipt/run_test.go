package receipt

import (
	"strings"
	"testing"

	"gpubuild/buildenv"
	"gpubuild/gpu/verify"
)

// unproven is a receipt of a program that was built and not run.
func unproven() Receipt {
	e := verify.Evidence{Schema: 1, Binary: "/x/other"}
	rules := verify.Rules{}
	return New("devel", Binary{Path: "/x/other", Size: 3, SHA256: "def"}, buildenv.Env{}, "", Ask(rules, false), e, verify.Judge(e, rules))
}

func TestReceiptsOfARun(t *testing.T) {
	whole := proven(t)
	whole.Result = []byte("{\n  \"schema\": \"gpubuild/run/1\",  \"n\": 1.50, \"s\": \"<é\\u2028\"\n}\n")
	whole.More = []Receipt{unproven()}
	data := written(t, whole)
	tests := []struct {
		story, sum string
		size       int64
		edit       func(string) string
		want       string // empty: it holds
	}{
		{"the first program", "abc", 10, nil, ""},
		{"the second was not run", "def", 3, nil, "it shows unproved, not proved: the program was not run"},
		{"neither", "xyz", 10, nil, "the binary is another one"},
		{"the second's length", "def", 4, nil, "the binary is another one"},
		{"the result was edited", "abc", 10, func(s string) string { return strings.Replace(s, "1.50", "2.50", 1) }, "its sum does not fit"},
		{"the second was edited", "abc", 10, func(s string) string { return strings.Replace(s, `"def"`, `"dea"`, 1) }, "its sum does not fit"},
		{"the second was taken out", "abc", 10, func(s string) string {
			return s[:strings.Index(s, `,`+"\n"+`  "more"`)] + s[strings.Index(s, `,`+"\n"+`  "sum"`):]
		}, "its sum does not fit"},
	}
	for _, tt := range tests {
		t.Run(tt.story, func(t *testing.T) {
			text := string(data)
			if tt.edit != nil {
				if text = tt.edit(text); text == string(data) {
					t.Fatal("nothing was edited")
				}
			}
			r, err := Decode([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			wrong := strings.Join(r.Check(tt.sum, tt.size, real), "\n")
			if (wrong == "") != (tt.want == "") || !strings.Contains(wrong, tt.want) {
				t.Errorf("%q, want %q", wrong, tt.want)
			}
		})
	}
	none := unproven()
	none.Binary, none.Evidence.Binary, none.Command = Binary{}, "", []string{""}
	r, err := Decode(written(t, none))
	if err != nil {
		t.Fatal(err)
	}
	if wrong := r.Check("", 0, real); len(wrong) != 1 || !strings.Contains(wrong[0], "of no program") {
		t.Errorf("%q", wrong)
	}
}
