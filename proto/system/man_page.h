// Writes a program's man page in mdoc(7), with the options and help texts of its parser.
//
// Plain text becomes mdoc with one sentence per line, empty lines between paragraphs, and
// `literals` in bold. Indented lines stay as they are.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace mlxcomm {

std::string ManText(std::string_view plain);
// A tagged list of the command's positional words and options, without -h and hidden options.
std::string ManOptions(const CLI::App& command);

}  // namespace mlxcomm
