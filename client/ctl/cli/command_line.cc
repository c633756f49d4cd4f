#include "client/ctl/cli/command_line.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/text.h"
#include "proto/types/did_you_mean.h"

namespace mlxcomm::ctl {
namespace {

std::vector<std::string> NamesBelow(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!verb->get_group().empty()) names.push_back(verb->get_name());
  }
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Our verb for a verb of other tools: "status --watch" for "top"; empty: none.
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
      {"trace", "perfetto profile"},
      {"python -m mlxcomm firstlight", "firstlight"}};
  for (const auto& [ours, theirs] : kTheirsByOurs) {
    const std::vector<std::string> words = absl::StrSplit(theirs, ' ');
    if (std::ranges::find(words, word) != words.end()) return ours;
  }
  return {};
}

// Another tool's name for a verb takes precedence over a similar spelling.
std::string Suggestion(const std::string& word, const std::vector<std::string>& names) {
  const std::string ours = VerbOfOtherTools(word);
  return ours.empty() ? DidYouMean(word, names) : "; did you mean \"" + ours + "\"?";
}

// A limit of an option: "1.00 ms", "10 s", "24 h".
std::string TimeText(std::uint64_t ns) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  if (ns < kSecond) return HumanNanoseconds(ns);
  const std::uint64_t seconds = ns / kSecond;
  if (seconds % 3600 == 0) return std::to_string(seconds / 3600) + " h";
  if (seconds % 60 == 0) return std::to_string(seconds / 60) + " min";
  return std::to_string(seconds) + " s";
}

}  // namespace

CLI::Validator NotEmpty(const std::string& expected) {
  return {[expected](const std::string& text) {
            return text.empty() ? "expected " + expected + ", got nothing" : std::string();
          },
          ""};
}

CLI::Option* AddSocket(CLI::App& verb, std::string& socket_path) {
  return verb.add_option("--socket", socket_path, "The daemon's Unix socket")
      ->type_name("PATH")
      ->check(NotEmpty("a path; omit --socket for the default"));
}

CLI::Option* AddConfig(CLI::App& verb, std::string& config_file) {
  return verb.add_option("--config", config_file, "The daemon's configuration, if none runs")
      ->type_name("FILE");
}

CLI::Option* AddDuration(CLI::App& verb, const std::string& name, std::uint64_t& value,
                         std::uint64_t min_ns, std::uint64_t max_ns, const std::string& what) {
  const auto take = [&value, name, min_ns, max_ns](const std::string& text) {
    const std::optional<std::uint64_t> parsed = ParseDuration(text);
    if (!parsed || *parsed < min_ns || *parsed > max_ns) {
      throw CLI::ValidationError(name, "expected a time from " + TimeText(min_ns) + " to " +
                                           TimeText(max_ns) + " (500ms, 10s, 5m, 1h), got \"" +
                                           text + "\"");
    }
    value = *parsed;
  };
  return verb.add_option_function<std::string>(name, take, what)->type_name("TIME");
}

std::string UsageError(const CLI::App* app, const CLI::Error& error) {
  std::string verb = app->get_name();
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    verb += " " + app->get_name();
  }
  std::string what = error.what();
  if (what == "A subcommand is required") {
    const std::vector<std::string> words = app->remaining();
    what = words.empty() ? "a verb of " + verb + " is required"
                         : verb + " has no verb \"" + Shown(words.front()) + "\"" +
                               Suggestion(words.front(), NamesBelow(*app));
  } else if (const std::vector<std::string> words = app->remaining();
             error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) &&
             !words.empty()) {
    what += DidYouMean(words.front(), NamesBelow(*app));
  }
  return "mlxcommctl: " + what + "\n" + verb + " --help says more\n";
}

}  // namespace mlxcomm::ctl
