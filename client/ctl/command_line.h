// The command line of mlxcommctl: each verb's file adds the verb with its options, and what runs it.
//
// Owner: main. Thread: main. Memory: each verb's options, by what runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace mlxcomm::ctl {

class Verbs {
 public:
  explicit Verbs(std::string called) : called_(std::move(called)) {}

  const std::string& called() const { return called_; }  // How this program was: argv[0].
  // `verb` has no others below it; what it returns is the exit code.
  void Add(const CLI::App& verb, std::function<int()> run) {
    verbs_.emplace_back(&verb, std::move(run));
  }
  // Once the command line is parsed: the one that was asked for.
  int Run() const;

 private:
  const std::string called_;
  std::vector<std::pair<const CLI::App*, std::function<int()>>> verbs_;
};

// A figure with a unit, into `value`; `form` tells how it is written.
template <typename Value>
CLI::Option* AddQuantity(CLI::App& verb, const std::string& name, Value& value,
                         std::optional<std::uint64_t> (*parse)(std::string_view),
                         const std::string& form, const std::string& what) {
  const auto take = [&value, parse, name, form](const std::string& text) {
    const std::optional<std::uint64_t> parsed = parse(text);
    if (!parsed) throw CLI::ValidationError(name, "\"" + text + "\" is not of the form " + form);
    value = parsed.value();
  };
  return verb.add_option_function<std::string>(name, take, what + ", as " + form);
}

// "1s", "200ms" into `value`, which is from `min_ns` to `max_ns`.
CLI::Option* AddDuration(CLI::App& verb, const std::string& name, std::uint64_t& value,
                         std::uint64_t min_ns, std::uint64_t max_ns, const std::string& what);

// An option's type_name for values that --help shows and shells complete: "{sum,prod,min}".
inline std::string OneOf(const std::string& names) { return "{" + names + "}"; }

// What is wrong, and where to read more: of the verb that was called. For CLI::App::failure_message.
std::string UsageError(const CLI::App* app, const CLI::Error& error);

// Each in the verb's own file.
void AddStatus(CLI::App& app, Verbs& verbs);
void AddTopology(CLI::App& app, Verbs& verbs);
void AddDoctor(CLI::App& app, Verbs& verbs);
void AddPing(CLI::App& app, Verbs& verbs);
void AddEvents(CLI::App& app, Verbs& verbs);
void AddBugreport(CLI::App& app, Verbs& verbs);
void AddFirstLight(CLI::App& app, Verbs& verbs);
void AddPlan(CLI::App& app, Verbs& verbs);
void AddRecord(CLI::App& app, Verbs& verbs);
void AddTrace(CLI::App& app, Verbs& verbs);
void AddBench(CLI::App& app, Verbs& verbs);
void AddCompletion(CLI::App& app, Verbs& verbs);
void AddSchema(CLI::App& app, Verbs& verbs);
void AddCluster(CLI::App& app, Verbs& verbs);
void AddLaunch(CLI::App& app, Verbs& verbs);
void AddLaunchAgent(CLI::App& app, Verbs& verbs);
void AddRankKeeper(CLI::App& app, Verbs& verbs);
void AddHosts(CLI::App& app, Verbs& verbs);
void AddHostsExport(CLI::App& hosts, Verbs& verbs);  // Below it.

}  // namespace mlxcomm::ctl
