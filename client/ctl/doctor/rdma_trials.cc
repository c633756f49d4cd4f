#include "client/ctl/doctor/rdma_trials.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/ctl/status/render_status.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {
namespace {

constexpr char kTrialArgument[] = "--try-rdma";  // daemon/transport/rdma/trials.h
constexpr std::size_t kDevicesMax = 16;
constexpr std::size_t kGidsMax = 64;  // Per device.
constexpr std::size_t kTrialsMax = 64;

using Words = std::vector<std::string>;

struct Outcome {
  std::string verdict;  // "worked", "refused", "hung", "crashed"
  std::string text;     // Several lines, where it is a list.
  bool held = false;    // The process could not even be killed.
};

Outcome Try(const RdmaTrialsOptions& options, const std::string& name,
            const std::string& device = "") {
  Words words = {options.program, kTrialArgument, options.config_file, name};
  if (!device.empty()) words.push_back(device);
  ProgramOptions how;
  how.timeout_ns = options.trial_timeout_ns;
  const auto output = RunProgram(words, how);
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

// Lines of words between tabs.
std::vector<Words> Table(const std::string& text) {
  std::vector<Words> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    lines.push_back(absl::StrSplit(line, '\t'));
  }
  return lines;
}

std::string Trouble(const Outcome& outcome) {
  return outcome.verdict == "worked" ? "" : outcome.verdict + ": " + outcome.text;
}

void ListDevices(const RdmaTrialsOptions& options, RdmaTrials& all) {
  const Outcome found = Try(options, "devices");
  all.devices_trouble = Trouble(found);
  if (!all.devices_trouble.empty()) return;
  for (const Words& line : Table(found.text)) {
    if (line.size() != 3 || all.devices.size() == kDevicesMax) continue;
    TriedDevice device;
    device.name = line[0];
    device.active = line[1] == "active";
    device.state = line[2];
    all.devices.push_back(std::move(device));
  }
  if (all.devices.empty()) return;
  const Outcome gids = Try(options, "gids");
  if (gids.verdict != "worked") return;
  for (const Words& line : Table(gids.text)) {
    for (TriedDevice& device : all.devices) {
      if (line.size() == 2 && line[0] == device.name && device.gids.size() < kGidsMax) {
        device.gids.push_back(line[1]);
      }
    }
  }
}

}  // namespace

RdmaTrials TryRdma(const RdmaTrialsOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto is_over = [&] {
    return static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count()) >
           options.all_timeout_ns;
  };
  RdmaTrials all;
  const Outcome limits = Try(options, "limits");
  all.limits_trouble = Trouble(limits);
  if (all.limits_trouble.empty()) {
    for (Words& line : Table(limits.text)) {
      if (line.size() == 3) all.limits.push_back({line[0], line[1], line[2]});
    }
  }
  ListDevices(options, all);
  if (all.devices.empty()) return all;
  const Outcome list = Try(options, "trials");
  all.trials_trouble = Trouble(list);
  if (!all.trials_trouble.empty()) return all;
  const std::vector<Words> trials = Table(list.text);
  for (TriedDevice& device : all.devices) {
    for (std::size_t i = 0; i < std::min(trials.size(), kTrialsMax); ++i) {
      const Words& trial = trials[i];
      if (trial.size() != 3 || (trial[1] == "port" && !device.active)) continue;
      if (is_over()) {
        all.out_of_time = true;
        return all;
      }
      const Outcome outcome = Try(options, trial[0], device.name);
      device.trials.push_back({trial[0], trial[2], outcome.verdict, outcome.text});
      device.held = outcome.held;
      if (device.held) return all;
    }
  }
  return all;
}

}  // namespace mlxcomm::ctl
