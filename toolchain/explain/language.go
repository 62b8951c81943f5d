package explain

import (
	"bytes"

	"gpubuild/buildenv/lazyregexp"
)

// What the linker, the compilers and the C library of GNU say in Chinese, German, French and Russian, and ld in Japanese, as logs and
// searches have it. Other languages would be guesses.
const (
	noSuchFile = "没有那个文件或目录|Datei oder Verzeichnis nicht gefunden|Aucun fichier ou dossier de ce type|" +
		"Нет такого файла или каталога"
	undefinedReference = "未定义的引用|Nicht definierter Verweis auf|nicht definierter Verweis auf|référence indéfinie vers|неопределённая ссылка на"
	cannotFind         = "找不到|ne peut trouver|невозможно найти|не удалось найти|kann|が見つかりません"
	quoted             = " ?[‘'`“\"«»「] ?([^’'”\"«»」\n]+?) ?[’'”\"«»」] ?"
)

// foreign is the English that rules know for them.
var foreign = []struct {
	said    *lazyregexp.Regexp
	english string
}{
	{lazyregexp.New(" ?[:：] ?(" + noSuchFile + ")"), ": No such file or directory"},
	// Of the loader, what stands between the library and the reason is of one meaning in all languages.
	{lazyregexp.New(`(\blib[\w.+-]+\.so[.\d]*): [^:\n]*[^\x00-\x7f][^:\n]*: No such file`), "$1: cannot open shared object file: No such file"},
	{lazyregexp.New("对" + quoted + "未定义的引用"), " undefined reference to `$1'"},
	{lazyregexp.New("(?:" + undefinedReference + ")(?: символ)?" + quoted), "undefined reference to `$1'"},
	{lazyregexp.New(`(?:` + cannotFind + `) (-l[\w+.:-]*[\w+])(?: nicht finden)?|(-l[\w+.:-]*[\w+]) ?(?:が見つかりません|kann nicht gefunden werden)`), "cannot find $1$2"},
}

var foreignWords = bytes.Split([]byte(noSuchFile+"|"+undefinedReference+"|"+cannotFind), []byte("|"))

// inEnglish says a line of GNU's tools in English; others it leaves alone.
func inEnglish(line []byte) []byte {
	if hasAny(line, foreignWords) {
		for _, f := range foreign {
			line = f.said.ReplaceAll(line, []byte(f.english))
		}
	}
	return line
}
