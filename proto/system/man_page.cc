#include "proto/system/man_page.h"

#include <cctype>
#include <sstream>

#include <CLI/CLI.hpp>

namespace mlxcomm {
namespace {

std::string Lower(std::string word) {
  for (char& letter : word) letter = static_cast<char>(std::tolower(letter));
  return word;
}

// `joined`: the line is a paragraph.
std::string Escaped(std::string_view line, bool joined) {
  std::string text;
  bool in_literal = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char sign = line[at];
    if ((text.empty() || text.back() == '\n') && (sign == '.' || sign == '\'')) text += "\\&";
    if (sign == '\\') {
      text += "\\e";
    } else if (sign == '`') {
      in_literal = !in_literal;
      text += in_literal ? "\\fB" : "\\fR";
    } else if (joined && sign == ' ' && at > 1 && line[at - 1] == '.' && at + 1 < line.size() &&
               std::isupper(static_cast<unsigned char>(line[at + 1])) != 0) {
      text += '\n';
    } else {
      text += sign;
    }
  }
  return text + "\n";
}

// "value" for TEXT:{a,b}, "time" for TIME.
std::string ValueOf(const CLI::Option& option) {
  std::string type = option.get_type_name();
  type = type.substr(0, type.find(':'));
  if (type.empty() || type.front() == '{') return "value";
  if (type == "UINT" || type == "INT" || type == "FLOAT") return "number";
  return Lower(type);
}

std::string Choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return "";
  std::string list = type.substr(begin + 1, end - begin - 1);
  for (std::size_t comma = 0; (comma = list.find(',', comma)) != std::string::npos; comma += 2) {
    list.insert(comma + 1, " ");
  }
  return " One of: " + list + ".";
}

std::string Item(const CLI::Option& option) {
  if (option.get_positional()) return ".It Ar " + Lower(option.get_name(true)) + "\n";
  std::string names;
  const auto add = [&names](const std::string& name) {
    names += (names.empty() ? " Fl " : " , Fl ") + name;
  };
  for (const std::string& name : option.get_snames()) add(name);
  for (const std::string& name : option.get_lnames()) add("-" + name);
  const bool takes_value = option.get_items_expected_max() > 0;
  return ".It" + names + (takes_value ? " Ar " + ValueOf(option) : "") + "\n";
}

}  // namespace

std::string ManText(std::string_view plain) {
  std::istringstream lines{std::string(plain)};
  std::string text, paragraph;
  bool shown_as_is = false;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) text += Escaped(paragraph, true);
    paragraph.clear();
    if (shown_as_is) text += ".Ed\n";
    shown_as_is = false;
  };
  for (std::string line; std::getline(lines, line);) {
    const bool indented = line.starts_with("  ");
    if (line.empty() || indented != shown_as_is) end_paragraph();
    if (line.empty()) {
      text += ".Pp\n";
    } else if (indented) {
      if (!shown_as_is) text += ".Bd -literal -offset indent -compact\n";
      shown_as_is = true;
      text += Escaped(line.substr(2), false);
    } else {
      paragraph += (paragraph.empty() ? "" : " ") + line;
    }
  }
  end_paragraph();
  return text;
}

std::string ManOptions(const CLI::App& command) {
  std::string items;
  for (const CLI::Option* const option : command.get_options()) {
    if (option->get_group().empty() || option == command.get_help_ptr()) continue;
    std::string what = option->get_description() + "." + Choices(*option);
    if (!option->get_envname().empty())
      what += " Default: variable `" + option->get_envname() + "`.";
    items += Item(*option) + ManText(what);
  }
  return items.empty() ? "" : ".Bl -tag -width Ds\n" + items + ".El\n";
}

}  // namespace mlxcomm
