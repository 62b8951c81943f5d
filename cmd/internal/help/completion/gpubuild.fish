# fish completion for gpubuild: gpubuild completion fish > ~/.config/fish/completions/gpubuild.fish
function __gpubuild_words
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    for line in (command gpubuild completion words -- $words[2..-1] "$typed" 2>/dev/null)
        if test "$line" = :files
            set -l prefix (string match -r -- '^--[^=]*=' $typed)
            for file in (complete -C "'' "(string replace -r -- '^--[^=]*=' '' "$typed"))
                echo "$prefix$file"
            end
        else
            echo $line
        end
    end
end
complete -c gpubuild -f -a '(__gpubuild_words)'
