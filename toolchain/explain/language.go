package explain

import (
	"bytes"

	"gpubuild/buildenv/lazyregexp"
)

// What the linker, the C library and bash say in other languages (from the catalogs ld.mo, libc.mo and bash.mo of GNU), gcc and Microsoft's
// tools in those that logs and searches have, and what other linkers and shells say in other English.
const (
	noSuchFile = "没有那个文件或目录|沒有此一檔案或目錄|Datei oder Verzeichnis nicht gefunden|Aucun fichier ou dossier de ce type|" +
		"Нет такого файла или каталога|No existe el fichero o el directorio|No existe el archivo o el directorio|" +
		"File o directory non esistente|そのようなファイルやディレクトリはありません|그런 파일이나 디렉터리가 없습니다|" +
		"Nie ma takiego pliku ani katalogu|Arquivo ou diretório inexistente|Ficheiro ou pasta inexistente|Bestand of map bestaat niet|" +
		"Adresář nebo soubor neexistuje|Böyle bir dosya ya da dizin yok|Немає такого файла або каталогу|Filen eller katalogen finns inte"
	noSpace = "设备上没有空间|裝置上已無多餘空間|Auf dem Gerät ist kein Speicherplatz mehr verfügbar|Aucun espace disponible sur le périphérique|" +
		"На устройстве не осталось свободного места|No queda espacio en el dispositivo|Spazio esaurito sul device|" +
		"デバイスに空き領域がありません|장치에 남은 공간이 없음|Brak miejsca na urządzeniu|Não há espaço disponível no dispositivo"
	noCommand = "未找到命令|指令找不到|(?:Befehl|Kommando) nicht gefunden|commande introuvable|команда не найдена|orden no encontrada|" +
		"comando non trovato|コマンドが見つかりません|명령어를 찾을 수 없음|nie znaleziono polecenia|comando não encontrado|opdracht niet gevonden|" +
		"příkaz nenalezen|komut yok|команду не знайдено|kommandot finns inte"
	cmdRefuses = "ist entweder falsch geschrieben|不是内部或外部命令|n.{1,3}est pas reconnu en tant que commande|は、内部コマンドまたは外部コマンド|" +
		"no se reconoce como un comando|не является внутренней или внешней|은\\(는\\) 내부 또는 외부 명령|non .{1,2} riconosciuto come comando|" +
		"n.{1,2}o .{1,2} reconhecido como um comando|nie jest rozpoznawan\\w+ jako polecenie"
	undefinedReference = "未定义的引用|Nicht definierter Verweis auf|nicht definierter Verweis auf|référence indéfinie vers|неопредел[её]нная ссылка на|" +
		"riferimento non definito a|referência não definida para|невизначене посилання на"
	undefinedBefore = "に対する定義されていない参照|への未定義の参照|sin definir"
	cannotFind      = "找不到|ne peut (?:pas )?trouver|невозможно найти|не удалось найти|kann|no se puede encontrar|impossibile trovare|" +
		"não foi possível localizar|не вдалося знайти|không tìm thấy"
	unresolved = "nicht aufgelöstes externes Symbol|symbole externe non résolu|símbolo externo|simbolo esterno|" +
		"未解決の外部シンボル|外部シンボル|无法解析的外部符号|無法解析的外部符號|확인할 수 없는 외부(?: 기호)?|неразрешенный внешний символ"
	quoted = " ?[‘'`“\"«»「] ?([^’'”\"«»」\n]+?) ?[’'”\"«»」] ?"
)

// foreign is the English that rules know for them.
var foreign = []struct {
	said    *lazyregexp.Regexp
	english string
}{
	{lazyregexp.New(" ?[:：] ?(" + noSuchFile + ")"), ": No such file or directory"},
	// Of the loader, what stands between the library and the reason is of one meaning in all languages.
	{lazyregexp.New(`(\blib[\w.+-]+\.so[.\d]*): [^:\n]+: No such file`), "$1: cannot open shared object file: No such file"},
	{lazyregexp.New(`cannot open shared object file: (Permission denied|Too many open files|Input/output error)`), "cannot read this shared object: $1"},
	{lazyregexp.New(noSpace), "No space left on device"},
	{lazyregexp.New("(?i) ?[:：] ?(?:" + noCommand + ")"), ": command not found"},
	{lazyregexp.New(`\b(?:command not found|Unknown command): ([\w.+-]+)`), "sh: $1: command not found"},
	{lazyregexp.New(`["'“‘«]([\w.+-]+)\\?["'”’»] ?(?:` + cmdRefuses + ")"), "'$1' is not recognized as an internal or external command"},
	{lazyregexp.New("(?:Die Benennung|无法将|Le terme|El término|用語|Имя) ?[\"'“«]\\s?([\\w.+-]+)\\s?[\"'”»]"),
		"The term '$1' is not recognized as the name of a cmdlet"},
	{lazyregexp.New("对" + quoted + "未定义的引用"), " undefined reference to `$1'"},
	{lazyregexp.New("(?:" + undefinedReference + ")(?: символ)?" + quoted), "undefined reference to `$1'"},
	{lazyregexp.New("(?:referencia a)?" + quoted + "(?:" + undefinedBefore + ")"), " undefined reference to `$1'"},
	{lazyregexp.New(`(?:` + cannotFind + `) (-l[\w+.:-]*[\w+])(?: nicht finden)?|(-l[\w+.:-]*[\w+]) ?(?:が見つかりません|kann nicht gefunden werden|bulunamadı)`), "cannot find $1$2"},
	{lazyregexp.New(`\bmold: (?:fatal|error): library not found: (\S+)`), "mold: cannot find -l$1"},
	{lazyregexp.New(`\blld-link: error: could not open '([^']+\.lib)': no such file or directory`), "LINK : fatal error LNK1181: cannot open input file '$1'"},
	{lazyregexp.New(`(LNK20(?:01|19): ).*?(?:` + unresolved + `) ?(\\?["“][^"”]+["”]|[^\s"”，]+)`), "${1}unresolved external symbol $2 "},
}

var foreignWords = bytes.Split([]byte(noSuchFile+"|"+noSpace+"|"+undefinedReference+"|"+undefinedBefore+"|bulunamadı|が見つかりません|"+
	"не удалось|невозможно найти|找不到|trouver|kann|no se puede|impossibile|não |вдалося|không|未找到|nicht gefunden|introuvable|не найдена|"+
	"no encontrada|non trovato|찾을 수|nie znaleziono|niet gevonden|nenalezen|komut yok|знайдено|kommandot|неопредел|"+
	"mold: |lld-link: |object file: Perm|object file: Too|object file: Input|LNK20|command not found: |Unknown command: |falsch geschrieben|内部或外部|pas reconnu|内部コマンド|no se reconoce|"+
	"не является|외부 명령|riconosciuto|reconhecido|rozpoznawan|Die Benennung|无法将|El término|用語|Имя"), []byte("|"))

// inEnglish says a line of these tools in the English that rules know; others it leaves alone.
func inEnglish(line []byte) []byte {
	if hasAny(line, foreignWords) {
		for _, f := range foreign {
			line = f.said.ReplaceAll(line, []byte(f.english))
		}
	}
	return line
}
