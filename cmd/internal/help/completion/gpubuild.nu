# Nushell completion for gpubuild. In config.nu: source gpubuild.nu, made by: gpubuild completion nu | save gpubuild.nu
# A completer of your own goes on working for every other command.
let gpubuild_other = ($env.config.completions?.external?.completer?)
$env.config.completions.external.enable = true
$env.config.completions.external.completer = {|spans|
    let words = ($spans | skip 1)
    if ($spans.0? | default "" | path parse | get stem) != "gpubuild" {
        return (if $gpubuild_other != null { do $gpubuild_other $spans })
    }
    # An empty word could be lost on its way to a program.
    let typed = (if ($words | is-empty) or (($words | last) == "") { "''" } else { $words | last })
    let lines = (do { ^gpubuild completion words -- ...($words | drop 1) $typed } | complete | get stdout | lines)
    let found = ($lines | where $it != ":files" | each {|line|
        let parts = ($line | split row -n 2 (char tab))
        { value: $parts.0, description: ($parts | get -o 1 | default "") }
    })
    # Nushell completes file names itself where a completer knows nothing.
    if ($found | is-empty) and (":files" in $lines) { null } else { $found }
}
