#!/bin/sh
# This system's userland without GNU-only features, and macOS's uname, brew and xcode-select. Chosen
# by the name under which this is called; its state is in $MAC_STATE.
name=${0##*/}
case $name in
  uname) [ "${1:--s}" = -m ] && echo arm64 || echo Darwin; exit ;;
  xcode-select) exit 0 ;;
  brew)
    verb=$1; shift
    case $verb in
      list) exec /usr/bin/grep -qx -- "$2" "$MAC_STATE/brew" ;;
      install) printf '%s\n' "$@" >> "$MAC_STATE/brew"; exit ;;
      *) echo "brew: $verb: not known" >&2; exit 64 ;;
    esac ;;
esac
case $name in  # Options that macOS's does not have, or means otherwise.
  cp) gnu=utT ;; install) gnu=DtTZ ;; grep) gnu=PT ;; ln) gnu=rtT ;; mv) gnu=tTu ;; cat) gnu=AET ;;
  date) gnu=dI ;; stat) gnu=c ;; tail) gnu=s ;; sed) gnu=rszi ;; mkdir) gnu=Z ;; mktemp) gnu=p ;;
  *) gnu=0 ;;  # Of the others no option is GNU's alone, but for long ones.
esac
for word in "$@"; do
  case $word in
    --) break ;;
    --*) echo "$name: illegal option -- $word" >&2; exit 64 ;;
    -*[$gnu]*)
      case $word in
        *[!A-Za-z-]*) ;;
        *) echo "$name: illegal option -- $word" >&2; exit 64 ;;
      esac ;;
  esac
  case $name:$word in
    sed:*\\[+?\|swSWbt]*) echo "sed: $word: GNU's own expression" >&2; exit 64 ;;
  esac
done
exec "/usr/bin/$name" "$@"
