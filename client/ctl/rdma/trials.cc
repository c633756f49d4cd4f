#include "client/ctl/rdma/trials.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/ctl/cli/quantities.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {
namespace {

constexpr char kTrialArgument[] = "--try-rdma";  // daemon/rdma/trials.h
constexpr int kDevicesMax = 16;
constexpr int kGidsMax = 64;  // Per device.
constexpr std::size_t kTrialsMax = 64;

using Words = std::vector<std::string>;

struct Outcome {
  std::string verdict;  // "worked", "refused", "hung", "crashed"
  std::string text;     // May have several lines.
  bool held = false;    // The process cannot be killed.
};

Outcome Try(const RdmaTrialsOptions& options, const std::string& name,
            const std::string& device = "") {
  Words words = {options.program, kTrialArgument, options.config_file, name};
  if (!device.empty()) words.push_back(device);
  const auto output = RunProgram(words, {.timeout_ns = options.trial_timeout_ns});
  if (!output.ok()) {
    const bool held = absl::IsAborted(output.status());
    const bool hung = held || absl::IsDeadlineExceeded(output.status());
    return {hung ? "hung" : "refused",
            hung
                ? absl::StrCat("no answer within ", HumanTime(options.trial_timeout_ns / 1'000'000),
                               held ? ", and its process cannot be ended" : "")
                : std::string(output.status().message()),
            held};
  }
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(output->text, absl::MaxSplits('\n', 1));
  if (output->exit_code != 0 || (parts.first != "worked" && parts.first != "refused")) {
    return {"crashed", "ended " + HowEnded(output->exit_code)};
  }
  return {std::string(parts.first), std::string(absl::StripSuffix(parts.second, "\n"))};
}

std::vector<Words> Table(const std::string& text) {
  std::vector<Words> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    lines.push_back(absl::StrSplit(line, '\t'));
  }
  return lines;
}

// Records the first failure in `all`.
std::vector<Words> List(const RdmaTrialsOptions& options, const std::string& name,
                        v1::RdmaTrials& all) {
  const Outcome list = Try(options, name);
  if (list.verdict == "worked") return Table(list.text);
  if (all.trouble().empty()) all.set_trouble(absl::StrCat(list.verdict, ": ", list.text));
  return {};
}

void ListDevices(const RdmaTrialsOptions& options, v1::RdmaTrials& all) {
  for (const Words& line : List(options, "devices", all)) {
    if (line.size() != 3 || all.devices_size() == kDevicesMax) continue;
    v1::RdmaTrialDevice& device = *all.add_devices();
    device.set_name(line[0]);
    device.set_active(line[1] == "active");
    device.set_state(line[2]);
  }
  if (all.devices().empty()) return;
  const Outcome gids = Try(options, "gids");
  if (gids.verdict != "worked") return;
  for (const Words& line : Table(gids.text)) {
    for (v1::RdmaTrialDevice& device : *all.mutable_devices()) {
      const bool is_its = line.size() == 2 && line[0] == device.name();
      if (is_its && device.gids_size() < kGidsMax) device.add_gids(line[1]);
    }
  }
}

}  // namespace

v1::RdmaTrials TryRdma(const RdmaTrialsOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto is_over = [&] {
    return static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count()) >
           options.all_timeout_ns;
  };
  v1::RdmaTrials all;
  for (const Words& line : List(options, "limits", all)) {
    if (line.size() != 3) continue;
    v1::RdmaTrialLimit& limit = *all.add_limits();
    limit.set_name(line[0]);
    limit.set_value(line[1]);
    limit.set_source(line[2]);
  }
  ListDevices(options, all);
  if (all.devices().empty()) return all;
  const std::vector<Words> trials = List(options, "trials", all);
  for (v1::RdmaTrialDevice& device : *all.mutable_devices()) {
    for (std::size_t i = 0; i < std::min(trials.size(), kTrialsMax); ++i) {
      const Words& trial = trials[i];
      if (trial.size() != 3 || (trial[1] == "port" && !device.active())) continue;
      if (is_over()) return all;
      const Outcome outcome = Try(options, trial[0], device.name());
      v1::RdmaTrial& tried = *device.add_trials();
      tried.set_name(trial[0]);
      tried.set_tries(trial[2]);
      tried.set_verdict(outcome.verdict);
      tried.set_text(outcome.text);
      if (!outcome.held) continue;
      device.set_held(true);
      return all;
    }
  }
  return all;
}

}  // namespace mlxcomm::ctl
