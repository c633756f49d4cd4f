#include "client/ctl/write_completion.h"

#include <string_view>
#include <vector>

namespace mlxcomm::ctl {
namespace {

using Options = std::vector<CommandOption>;

// For all three shells: 'it'\''s'
std::string ShellQuoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}
// In fish a backslash escapes within quotes.
std::string QuotedForFish(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// "'plan:-n'|'plan:--ranks'": the patterns by which a script knows it.
std::string Patterns(const Command& command, const CommandOption& option) {
  std::string patterns;
  for (const std::string& name : option.names) {
    patterns += (patterns.empty() ? "" : "|") + ShellQuoted(command.path + ":" + name);
  }
  return patterns;
}

bool Named(const CommandOption& option) { return !option.positional; }
bool TakesWord(const CommandOption& option) { return Named(option) && option.takes_value; }

// The lines by which bash and zsh find the verb, the same in both: `word` after `verb`.
std::string FindVerb(const Command& top, const std::string& take_two) {
  std::string text = "    case \"$verb:$word\" in\n";
  for (const Command* const command : Flattened(top)) {
    for (const Command& below : command->commands) {
      text += "      " + ShellQuoted(command->path + ":" + below.name) +
              ") verb=" + ShellQuoted(below.path) + " ;;\n";
    }
    for (const CommandOption& option : command->options) {
      if (TakesWord(option)) {
        text += "      " + Patterns(*command, option) + ") " + take_two + " ;;\n";
      }
    }
  }
  return text + "    esac\n";
}

// The cases of `verb:previous` in bash and zsh: what `complete` says of the word after each option.
template <typename Complete>
std::string AfterOptions(const Command& top, Complete complete) {
  std::string text;
  for (const Command* const command : Flattened(top)) {
    for (const CommandOption& option : command->options) {
      if (!TakesWord(option)) continue;
      text += "    " + Patterns(*command, option) + ") " + complete(option) + "return ;;\n";
    }
  }
  return text;
}

std::string BashWords(const Command& command) {
  std::vector<std::string> words;
  for (const Command& below : command.commands) words.push_back(below.name);
  for (const CommandOption& option : command.options) {
    const std::vector<std::string>& more = Named(option) ? option.names : option.values;
    words.insert(words.end(), more.begin(), more.end());
  }
  return Joined(words);
}

bool TakesFiles(const Command& command) {
  for (const CommandOption& option : command.options) {
    if (option.positional && option.takes_file) return true;
  }
  return false;
}

// "name:description" for _describe, which wants colons of the name escaped.
std::string ZshItem(const std::string& name, const std::string& description) {
  std::string item;
  for (const char c : name) item += c == ':' ? std::string("\\:") : std::string(1, c);
  return ShellQuoted(item + ":" + description);
}

std::string ZshVerb(const Command& command) {
  std::string text = "    " + ShellQuoted(command.path) + ")\n";
  std::string items;
  for (const Command& below : command.commands)
    items += " " + ZshItem(below.name, below.description);
  for (const CommandOption& option : command.options) {
    for (const std::string& value : Named(option) ? std::vector<std::string>{} : option.values) {
      items += " " + ZshItem(value, option.description);
    }
  }
  if (!items.empty())
    text += "      items=(" + items.substr(1) + ")\n      _describe 'verb' items\n";
  if (TakesFiles(command)) text += "      _files\n";
  std::string options;
  for (const CommandOption& option : command.options) {
    for (const std::string& name : Named(option) ? option.names : std::vector<std::string>{}) {
      options += "\n        " + ZshItem(name, option.description);
    }
  }
  return text + "      items=(" + options + ")\n      _describe -o 'option' items ;;\n";
}

std::string FishOption(const Command& command, const CommandOption& option) {
  std::string line = "complete -c mlxcommctl -n " +
                     QuotedForFish("__mlxcommctl_at " + QuotedForFish(command.path));
  for (const std::string& name : option.names) {
    if (option.positional) break;
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (option.positional && option.takes_file) line += " -F";
  if (TakesWord(option)) line += option.takes_file ? " -r -F" : " -x";
  if (!option.values.empty()) line += " -a " + QuotedForFish(Joined(option.values));
  return line + " -d " + QuotedForFish(option.description) + "\n";
}

}  // namespace

std::string BashCompletion(const Command& top) {
  std::string text =
      "# bash completion of mlxcommctl: source it, or put it where bash-completion looks.\n"
      "_mlxcommctl() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local verb='' word words='' i\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    word=${COMP_WORDS[i]}\n"
      "    if [[ $word == -- ]]; then\n"
      "      if ((i + 1 == COMP_CWORD)); then COMPREPLY=($(compgen -c -- \"$current\")); fi\n"
      "      COMPREPLY+=($(compgen -f -- \"$current\"))\n"
      "      return\n"
      "    fi\n" +
      FindVerb(top, "((++i))") +
      "  done\n"
      "  case \"$verb:$previous\" in\n" +
      AfterOptions(top, [](const CommandOption& option) {
        std::string replies;
        if (option.takes_file) replies += "COMPREPLY=($(compgen -f -- \"$current\")); ";
        if (!option.values.empty()) {
          replies += "COMPREPLY=($(compgen -W " + ShellQuoted(Joined(option.values)) +
                     " -- \"$current\")); ";
        }
        return replies;
      });
  text += "  esac\n  case \"$verb\" in\n";
  for (const Command* const command : Flattened(top)) {
    text += "    " + ShellQuoted(command->path) + ") words=" + ShellQuoted(BashWords(*command));
    if (TakesFiles(*command)) text += "; COMPREPLY=($(compgen -f -- \"$current\"))";
    text += " ;;\n";
  }
  return text +
         "  esac\n"
         "  COMPREPLY+=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -F _mlxcommctl mlxcommctl\n";
}

std::string ZshCompletion(const Command& top) {
  std::string text =
      "#compdef mlxcommctl\n"
      "# zsh completion of mlxcommctl: source it after compinit, or put it as _mlxcommctl on "
      "fpath.\n"
      "_mlxcommctl() {\n"
      "  local verb='' word previous=$words[CURRENT-1]\n"
      "  local -a items\n"
      "  integer i\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n"
      "    word=$words[i]\n"
      "    if [[ $word == -- ]]; then\n"
      "      shift $i words\n"
      "      ((CURRENT -= i))\n"
      "      _normal\n"
      "      return\n"
      "    fi\n" +
      FindVerb(top, "((++i))") +
      "  done\n"
      "  case \"$verb:$previous\" in\n" +
      AfterOptions(top, [](const CommandOption& option) {
        if (!option.values.empty())
          return "items=(" + Joined(option.values) + "); _describe 'value' items; ";
        return option.takes_file ? "_files; "
                                 : "_message " + ShellQuoted(option.description) + "; ";
      });
  text += "  esac\n  case \"$verb\" in\n";
  for (const Command* const command : Flattened(top)) text += ZshVerb(*command);
  return text +
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _mlxcommctl ]]; then\n"
         "  _mlxcommctl \"$@\"\n"
         "else\n"
         "  compdef _mlxcommctl mlxcommctl\n"
         "fi\n";
}

std::string FishCompletion(const Command& top) {
  std::string text =
      "# fish completion of mlxcommctl: source it, or put it into ~/.config/fish/completions.\n"
      "function __mlxcommctl_at\n"
      "  set -l verb ''\n"
      "  set -l skip 0\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    if test $skip = 1\n"
      "      set skip 0\n"
      "      continue\n"
      "    end\n"
      "    switch \"$verb:$word\"\n"
      "      case '*:--'\n"
      "        test \"$argv[1]\" = --\n"
      "        return\n";
  for (const Command* const command : Flattened(top)) {
    for (const Command& below : command->commands) {
      text += "      case " + QuotedForFish(command->path + ":" + below.name) +
              "\n        set verb " + QuotedForFish(below.path) + "\n";
    }
    for (const CommandOption& option : command->options) {
      if (!TakesWord(option)) continue;
      for (const std::string& name : option.names) {
        text +=
            "      case " + QuotedForFish(command->path + ":" + name) + "\n        set skip 1\n";
      }
    }
  }
  text +=
      "    end\n"
      "  end\n"
      "  test \"$verb\" = \"$argv[1]\"\n"
      "end\n"
      "complete -c mlxcommctl -f\n"
      "complete -c mlxcommctl -n '__mlxcommctl_at --' -F -a '(__fish_complete_command)'\n";
  for (const Command* const command : Flattened(top)) {
    for (const Command& below : command->commands) {
      text += "complete -c mlxcommctl -n " +
              QuotedForFish("__mlxcommctl_at " + QuotedForFish(command->path)) + " -a " +
              below.name + " -d " + QuotedForFish(below.description) + "\n";
    }
    for (const CommandOption& option : command->options) {
      if (Named(option) || !option.values.empty() || option.takes_file)
        text += FishOption(*command, option);
    }
  }
  return text;
}

}  // namespace mlxcomm::ctl
