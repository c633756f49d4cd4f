// How --help looks: at most 80 columns, options without the parser's notes, examples and exit codes last.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace mlxcomm::ctl {

// Sets the format for the app and for verbs added later.
void UseHelpFormat(CLI::App& app);

// Paragraphs at most `columns` wide; lines that begin with a blank stay as they are.
std::string Wrapped(const std::string& text, std::size_t columns);

}  // namespace mlxcomm::ctl
