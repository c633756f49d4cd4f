# bash completion for mlxcommctl: source it, or put it where bash-completion finds it.
_mlxcommctl() {
  local word last='' words=() offer
  for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do  # Since 4.0 bash breaks words at '=' and ':'.
    if [[ ${#words[@]} -gt 0 && ($word == [=:]* || ($last == *[=:] && -n $word)) ]]; then
      words[${#words[@]}-1]+=$word
    else
      words+=("$word")
    fi
    last=$word
  done
  COMPREPLY=()
  while IFS= read -r offer; do
    case $offer in
      :files) compopt -o default ;;
      :folders) compopt -o dirnames ;;
      :program*)
        compopt -o default
        [[ ${#words[@]} -eq ${offer#:program }+1 && $last != */* ]] || continue
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -c -- "$last") ;;
      :*) ;;
      *) offer=${offer%%$'\t'*} && COMPREPLY+=("${offer##*=}") ;;  # The text before '=' is kept.
    esac
  done < <("${1/#\~/$HOME}" __complete "${words[@]}")
} 2> /dev/null
# bash 3.2 has no compopt: it offers files when there is nothing else.
if type compopt > /dev/null 2>&1; then complete -F _mlxcommctl mlxcommctl
else complete -o default -F _mlxcommctl mlxcommctl; fi
