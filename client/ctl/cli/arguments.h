// What people type in other ways than the parser reads it.
//
//   help launch            launch --help
//   version, -V, -v        --version
//   --json status          status --json
#pragma once

#include <string>
#include <vector>

namespace mlxcomm::ctl {

// As the first word: parse the rest and run nothing. Tests of documented commands use it.
inline constexpr char kCheckUsage[] = "__check";

// `words` as typed behind the program's name, and as the parser reads them.
std::vector<std::string> NormalisedArguments(std::vector<std::string> words);

// Our verb for a verb of other tools: "status --watch" for "top"; empty: none.
std::string VerbOfOtherTools(const std::string& word);

}  // namespace mlxcomm::ctl
