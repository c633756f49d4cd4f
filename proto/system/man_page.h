// A program's man page in mdoc(7), whose options are those of its parser with their help texts: what
// --help says is written nowhere else.
//
// Plain text becomes mdoc: a sentence a line, an empty line between paragraphs, `literals` in bold.
// Indented lines are shown as they are.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace mlxcomm {

std::string ManText(std::string_view plain);
// A tagged list of the command's positional words and options, but for those that --help hides and -h.
std::string ManOptions(const CLI::App& command);

}  // namespace mlxcomm
