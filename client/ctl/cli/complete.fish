# fish completion for mlxcommctl: source it, or put it into ~/.config/fish/completions.
function __mlxcommctl_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    for offer in ($words[1] __complete $words "$word" 2>/dev/null)
        set -l parts (string match -r '^(--[^=]*=|)(.*)$' -- "$word")
        switch $offer
            case ':files'
                string replace -r '^' -- "$parts[2]" (__fish_complete_path "$parts[3]")
            case ':folders'
                string replace -r '^' -- "$parts[2]" (__fish_complete_directories "$parts[3]")
            case ':program *'
                set -e words[1..(string replace ':program ' '' -- $offer)]
                complete -C (string join -- ' ' (string escape -- $words) "$word")
            case ':*'
            case '*'
                echo $offer
        end
    end
end
complete -c mlxcommctl -f -a '(__mlxcommctl_complete)'
