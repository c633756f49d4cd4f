#include "client/ctl/cli/arguments.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "client/ctl/cli/verbs.h"

namespace mlxcomm::ctl {
namespace {

// Options of nearly all verbs; those with a value take the next word, too.
constexpr std::string_view kBeforeVerbs[] = {"--json", "--verbose"};
constexpr std::string_view kBeforeVerbsWithValue[] = {"--socket", "--config"};

template <typename Words>
bool IsOneOf(const std::string& word, const Words& words) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

// How many of the words from `at` on name a verb: 2 for `hosts import FILE`.
std::size_t WordsOfVerb(const std::vector<std::string>& words, std::size_t at) {
  std::size_t most = 0;
  std::string path;
  for (std::size_t count = 1; at + count <= words.size(); ++count) {
    path += (count == 1 ? "" : " ") + words[at + count - 1];
    const auto verbs = Verbs();
    if (std::ranges::any_of(verbs, [&](const Verb& verb) { return path == verb.path; }))
      most = count;
  }
  return most;
}

// Of the leading options that a verb has; 0: there are none, or the parser is to refuse them.
std::size_t OptionsBeforeVerb(const std::vector<std::string>& words) {
  std::size_t at = 0;
  while (at < words.size() && words[at].starts_with("--")) {
    const std::string name = words[at].substr(0, words[at].find('='));
    const bool has_value = IsOneOf(name, kBeforeVerbsWithValue);
    if (!has_value && !IsOneOf(name, kBeforeVerbs)) return 0;
    at += has_value && name == words[at] ? 2 : 1;
  }
  return at < words.size() ? at : 0;
}

}  // namespace

std::vector<std::string> NormalisedArguments(std::vector<std::string> words) {
  if (words.empty()) return {"--help"};
  if (words[0] == "help") {
    words.erase(words.begin());
    const std::size_t verb = WordsOfVerb(words, 0);
    if (words.empty() || verb > 0) {
      words.resize(verb);
      words.emplace_back("--help");
    }
    return words;  // The parser reports an unknown verb.
  }
  if (words.size() == 1 && IsOneOf(words[0], std::vector<std::string_view>{"version", "-V", "-v"}))
    return {"--version"};
  const std::size_t options = OptionsBeforeVerb(words);
  const std::size_t verb = options == 0 ? 0 : WordsOfVerb(words, options);
  if (verb > 0) {
    std::rotate(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(options),
                words.begin() + static_cast<std::ptrdiff_t>(options + verb));
  }
  return words;
}

std::string VerbOfOtherTools(const std::string& word) {
  constexpr std::pair<std::string_view, const char*> kTable[] = {{"top", "status --watch"},
                                                                 {"watch", "status --watch"},
                                                                 {"nodes", "status"},
                                                                 {"ls", "status"},
                                                                 {"ps", "jobs"},
                                                                 {"info", "status"},
                                                                 {"list", "jobs"},
                                                                 {"cancel", "kill"},
                                                                 {"links", "status --verbose"},
                                                                 {"run", "launch"},
                                                                 {"exec", "launch"},
                                                                 {"mpirun", "launch"},
                                                                 {"submit", "launch"},
                                                                 {"logs", "service logs"},
                                                                 {"log", "service logs"},
                                                                 {"journal", "events"},
                                                                 {"history", "events"},
                                                                 {"start", "service install"},
                                                                 {"up", "service install"},
                                                                 {"enable", "service install"},
                                                                 {"stop", "kill"},
                                                                 {"down", "kill"},
                                                                 {"cancel-job", "kill"},
                                                                 {"restart", "service restart"},
                                                                 {"reload", "service restart"},
                                                                 {"upgrade", "service install"},
                                                                 {"init", "cluster create"},
                                                                 {"create", "cluster create"},
                                                                 {"join", "cluster join"},
                                                                 {"token", "cluster key show"},
                                                                 {"key", "cluster key show"},
                                                                 {"ui", "web"},
                                                                 {"dashboard", "web"},
                                                                 {"gui", "web"},
                                                                 {"serve", "web"},
                                                                 {"check", "doctor"},
                                                                 {"diagnose", "doctor"},
                                                                 {"health", "doctor"},
                                                                 {"fix", "doctor --fix"},
                                                                 {"perf", "bench"},
                                                                 {"benchmark", "bench"},
                                                                 {"speed", "bench"},
                                                                 {"report", "bugreport"},
                                                                 {"bug", "bugreport"},
                                                                 {"graph", "topology"},
                                                                 {"map", "topology"},
                                                                 {"import", "hosts import"},
                                                                 {"export", "hosts export"},
                                                                 {"perfetto", "trace"},
                                                                 {"profile", "trace"}};
  for (const auto& [theirs, ours] : kTable) {
    if (theirs == word) return ours;
  }
  return word == "firstlight" ? "python -m mlxcomm firstlight" : "";
}

}  // namespace mlxcomm::ctl
