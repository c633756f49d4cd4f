#include "client/ctl/cli/arguments.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_split.h"
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
    if (std::ranges::any_of(Verbs(), [&](const Verb& verb) { return path == verb.path; }))
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
  constexpr std::pair<const char*, const char*> kTheirsByOurs[] = {
      {"status --watch", "top watch"},
      {"status", "nodes ls info"},
      {"jobs", "ps list"},
      {"kill", "cancel stop down cancel-job"},
      {"status --verbose", "links"},
      {"launch", "run exec mpirun submit"},
      {"service logs", "logs log"},
      {"events", "journal history"},
      {"service install", "start up enable upgrade"},
      {"service restart", "restart reload"},
      {"cluster create", "init create"},
      {"cluster join", "join"},
      {"cluster key show", "token key"},
      {"web", "ui dashboard gui serve"},
      {"doctor", "check diagnose health"},
      {"doctor --fix", "fix"},
      {"bench", "perf benchmark speed"},
      {"bugreport", "report bug"},
      {"topology", "graph map"},
      {"hosts import", "import"},
      {"hosts export", "export"},
      {"trace", "perfetto profile"},
      {"python -m mlxcomm firstlight", "firstlight"}};
  for (const auto& [ours, theirs] : kTheirsByOurs) {
    if (IsOneOf(word, std::vector<std::string>(absl::StrSplit(theirs, ' ')))) return ours;
  }
  return {};
}

}  // namespace mlxcomm::ctl
