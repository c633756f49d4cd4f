#include "client/ctl/rdma/trials.h"

#include <chrono>
#include <utility>
#include <vector>

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/ctl/cli/quantities.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {
namespace {

constexpr char kTrialArgument[] = "--try-rdma";  // daemon/rdma/trials.h
constexpr std::uint64_t kTrialNs = 15'000'000'000;

struct Outcome {
  std::string verdict;  // "worked", "refused", "hung", "crashed"
  std::string text;     // May have several lines.
  bool held = false;    // The process cannot be killed.
};

Outcome Try(const RdmaTrialsOptions& options, const std::string& name,
            const std::string& device = "") {
  std::vector<std::string> words = {"mlxcommd", kTrialArgument, options.config_file, name};
  if (!device.empty()) words.push_back(device);
  const auto output = RunProgram(words, {.timeout_ns = kTrialNs});
  if (!output.ok()) {
    const bool held = absl::IsAborted(output.status());
    const bool hung = held || absl::IsDeadlineExceeded(output.status());
    return {hung ? "hung" : "refused",
            hung ? absl::StrCat("no answer within ", HumanTime(kTrialNs / 1'000'000),
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

// Adds what the process lists. Records the first failure in `all`.
void List(const RdmaTrialsOptions& options, const std::string& name, v1::RdmaTrials& all) {
  const Outcome list = Try(options, name);
  v1::RdmaTrials listed;
  if (list.verdict == "worked" &&
      google::protobuf::TextFormat::ParseFromString(list.text, &listed)) {
    all.MergeFrom(listed);
  } else if (all.trouble().empty()) {
    all.set_trouble(absl::StrCat(list.verdict, ": ", list.text));
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
  List(options, "limits", all);
  List(options, "devices", all);
  const v1::RdmaTrials listed = all;
  for (v1::RdmaTrialDevice& device : *all.mutable_devices()) device.clear_trials();
  for (int i = 0; i < listed.devices_size(); ++i) {
    v1::RdmaTrialDevice& device = *all.mutable_devices(i);
    for (const v1::RdmaTrial& trial : listed.devices(i).trials()) {
      if (is_over()) return all;
      const Outcome outcome = Try(options, trial.name(), device.name());
      v1::RdmaTrial& tried = *device.add_trials();
      tried = trial;
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
