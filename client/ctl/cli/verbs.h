// The table of verbs. A new verb is a row in verbs.def and a folder with a function that adds its
// options and its longer text (CLI::App::footer). --help, completion and the man page read them
// from the parser.
//
//   verbs.def ──▶ Verbs() ──AddVerbs──▶ CLI::App ──parse──▶ the verb's Run
//
// Owner: main. Thread: main. Memory: each verb's options, held by its Run.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace mlxcomm::ctl {

struct Invocation {
  std::string called;   // argv[0].
  const CLI::App& app;  // Complete once the command line is parsed.
};

// Runs a verb with the options of the command line; returns the exit code.
using Run = std::function<int()>;
using AddOptions = Run(CLI::App& verb, const Invocation& invocation);

struct Verb {
  const char* path;     // "status", "cluster create"
  AddOptions* add;      // Null if it only has verbs below it.
  const char* message;  // The mlxcomm.v1 message that --json prints; empty: none.
  const char* group;    // The heading in --help.
  const char* help;
  const char* examples;  // One per line.
  bool hidden;
};

std::span<const Verb> Verbs();

std::vector<std::pair<const CLI::App*, Run>> AddVerbs(CLI::App& app, const Invocation& invocation);

#define MLXCOMM_VERB(path, add, message, group, help, examples) AddOptions add;
#define MLXCOMM_FOLDER(path, group, help)
#define MLXCOMM_HIDDEN(path, add, help) AddOptions add;
#include "client/ctl/cli/verbs.def"
#undef MLXCOMM_VERB
#undef MLXCOMM_FOLDER
#undef MLXCOMM_HIDDEN

}  // namespace mlxcomm::ctl
