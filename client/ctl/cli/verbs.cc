#include "client/ctl/cli/verbs.h"

#include <sstream>

#include <CLI/CLI.hpp>

namespace mlxcomm::ctl {
namespace {

constexpr Verb kVerbs[] = {
#define MLXCOMM_VERB(path, add, message, group, help, examples) \
  {path, add, message, group, help, examples, false},
#define MLXCOMM_FOLDER(path, group, help) {path, nullptr, "", group, help, "", false},
#define MLXCOMM_HIDDEN(path, add, help) {path, add, "", "", help, "", true},
#include "client/ctl/cli/verbs.def"
#undef MLXCOMM_VERB
#undef MLXCOMM_FOLDER
#undef MLXCOMM_HIDDEN
};

std::string WithExamples(std::string footer, const std::string& examples) {
  footer += footer.empty() ? "Examples:\n" : "\n\nExamples:\n";
  std::istringstream lines(examples);
  for (std::string line; std::getline(lines, line);) footer += "  " + line + "\n";
  return footer;
}

}  // namespace

std::span<const Verb> Verbs() { return kVerbs; }

std::vector<std::pair<const CLI::App*, Run>> AddVerbs(CLI::App& app, const Invocation& invocation) {
  std::vector<std::pair<const CLI::App*, Run>> runs;
  for (const Verb& verb : kVerbs) {
    CLI::App* above = &app;
    std::string name = verb.path;
    for (std::size_t blank; (blank = name.find(' ')) != std::string::npos;) {
      above = above->get_subcommand(name.substr(0, blank));
      name.erase(0, blank + 1);
    }
    CLI::App* const added = above->add_subcommand(name, verb.help);
    added->group(verb.hidden ? "" : *verb.group == 0 ? "Verbs" : verb.group);
    if (verb.add == nullptr) {
      added->require_subcommand(1);
    } else {
      runs.emplace_back(added, verb.add(*added, invocation));
      if (*verb.examples != 0) added->footer(WithExamples(added->get_footer(), verb.examples));
    }
  }
  return runs;
}

}  // namespace mlxcomm::ctl
