#compdef mlxcommctl
# zsh completion for mlxcommctl: source it after compinit, or put it on fpath as _mlxcommctl.
_mlxcommctl() {
  local offer
  local -a offers
  for offer in "${(@f)$(${~words[1]} __complete "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2> /dev/null)}"; do
    [[ $offer == :f* && $PREFIX == --*=* ]] && compset -P 1 '*='
    case $offer in
      :files) _files ;;
      :folders) _files -/ ;;
      :program*) shift ${offer#:program } words; ((CURRENT -= ${offer#:program })); _normal ;;
      :hint*) _message -r "${offer#:hint }" ;;
      *$'\t'*) offers+=("${offer%%$'\t'*}:${offer#*$'\t'}") ;;
    esac
  done
  (($#offers)) && _describe -V mlxcommctl offers
}
if [[ $funcstack[1] == _mlxcommctl ]]; then _mlxcommctl "$@"; else compdef _mlxcommctl mlxcommctl; fi
