# bash completion for gpubuild. In ~/.bashrc: source <(gpubuild completion bash)
_gpubuild() {
    local -a words=()
    local i word prefix='' line files=''
    # bash cuts words at = and :, as COMP_WORDBREAKS says; they belong together here.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((${#words[@]} > 0)) && { [[ $word == [=:]* ]] || [[ ${words[${#words[@]} - 1]} == --*[=:] ]]; }; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
    done
    ((${#words[@]} > 0)) || words=('')
    word=${words[${#words[@]} - 1]}
    [[ $word == --*=* && $COMP_WORDBREAKS == *=* ]] && prefix=${word%%=*}=
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            files=1
        else
            line=${line%%$'\t'*}
            COMPREPLY+=("${line#"$prefix"}")
        fi
    done < <(command gpubuild completion words -- "${words[@]}" 2>/dev/null)
    if [[ $files ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done < <(compgen -f -- "${word#"$prefix"}")
    fi
}
complete -F _gpubuild gpubuild
