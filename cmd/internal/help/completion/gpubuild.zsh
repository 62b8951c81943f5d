#compdef gpubuild
# zsh completion for gpubuild. In ~/.zshrc, after compinit: source <(gpubuild completion zsh)
_gpubuild() {
    local -a answers list
    local line word files=''
    answers=("${(@f)$(command gpubuild completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    for line in "${answers[@]}"; do
        if [[ -z $line ]]; then
            continue
        elif [[ $line == :files ]]; then
            files=1
        else
            word=${line%%$'\t'*}
            if [[ $line == *$'\t'* ]]; then
                list+=("${word//:/\\:}:${line#*$'\t'}")
            else
                list+=("${word//:/\\:}")
            fi
        fi
    done
    (( ${#list} )) && _describe -t words gpubuild list
    if [[ -n $files ]]; then
        [[ $PREFIX == --*=* ]] && compset -P 1 '*='
        _files
    fi
}
compdef _gpubuild gpubuild
