#include "client/ctl/rdma_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/ctl/doctor/program_output.h"
#include "client/ctl/doctor/render_doctor.h"
#include "client/ctl/render_status.h"

namespace mlxcomm::ctl {
namespace {

constexpr char kTrialArgument[] = "--try-rdma";  // daemon/fabric/rdma/trials.h
constexpr std::size_t kDevicesMax = 16;
constexpr std::size_t kTrialsMax = 64;

using Words = std::vector<std::string>;

struct Outcome {
  std::string verdict;  // "worked", "refused", "hung", "crashed"
  std::string text;     // Of several lines, where it is a list.
  bool held = false;    // The process could not even be ended.
};

Outcome Try(const RdmaReportOptions& options, const std::string& name,
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
    const int signal = output->exit_code - 128;
    return {"crashed", signal > 0 ? absl::StrCat("ended by signal ", signal)
                                  : absl::StrCat("ended with ", output->exit_code)};
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

std::string Padded(std::string text, std::size_t width) {
  text = Shown(text);
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string Limits(const RdmaReportOptions& options) {
  const Outcome limits = Try(options, "limits");
  std::string text = "What is taken of devices\n";
  if (limits.verdict != "worked")
    return text + "  " + limits.verdict + ": " + Shown(limits.text) + "\n";
  for (const Words& line : Table(limits.text)) {
    if (line.size() == 3) {
      text +=
          "  " + Padded(line[0], 20) + "  " + Padded(line[1], 16) + "  " + Shown(line[2]) + "\n";
    }
  }
  return text;
}

struct Device {
  std::string name;
  bool active = false;
  std::string state;
};

std::string Devices(const RdmaReportOptions& options, std::vector<Device>& devices) {
  const Outcome found = Try(options, "devices");
  std::string text = "Devices\n";
  if (found.verdict != "worked")
    return text + "  " + found.verdict + ": " + Shown(found.text) + "\n";
  for (const Words& line : Table(found.text)) {
    if (line.size() != 3 || devices.size() == kDevicesMax) continue;
    devices.push_back({line[0], line[1] == "active", line[2]});
    text += "  " + Padded(line[0], 14) + Shown(line[2]) + "\n";
  }
  return devices.empty() ? text + "  there is none\n" : text;
}

// Each in a process of its own, so that one that hangs or crashes hides none of the others.
std::string Trials(const RdmaReportOptions& options, const std::vector<Device>& devices) {
  std::string text = "Tried, each in a process of its own; nothing left this machine\n";
  if (devices.empty()) return text + "  nothing: there is no device\n";
  const Outcome list = Try(options, "trials");
  const std::vector<Words> trials = Table(list.text);
  if (list.verdict != "worked") return text + "  " + list.verdict + ": " + Shown(list.text) + "\n";
  for (const Device& device : devices) {
    text += "  " + Shown(device.name) +
            (device.active ? "\n" : ": only described, as its port is not active\n");
    for (std::size_t i = 0; i < std::min(trials.size(), kTrialsMax); ++i) {
      const Words& trial = trials[i];
      if (trial.size() != 3 || (trial[1] == "port" && !device.active)) continue;
      const Outcome outcome = Try(options, trial[0], device.name);
      text += "    " + Padded(trial[0], 18) + Padded(outcome.verdict, 9) + Shown(trial[2]) + "\n" +
              std::string(31, ' ') + Shown(outcome.text) + "\n";
      if (!outcome.held) continue;
      text += "    the driver holds that process; nothing more is asked of it\n";
      return text;
    }
  }
  return text;
}

std::string Rail(const v1::NodeStatus& node, const v1::LinkStatus& link,
                 const v1::RailStatus& rail) {
  std::string text = "  " + Shown(node.name()) + " " + Shown(rail.local_interface()) + " to " +
                     Shown(link.peer()) + " " + Shown(rail.remote_interface()) + ": " +
                     Shown(rail.state());
  if (rail.state() != "up") {
    return text + ", " + Shown(rail.rdma().reason()) + ": " + Shown(rail.detail()) + "\n";
  }
  return text + ", " + Shown(rail.local_address()) + " - " + Shown(rail.remote_address()) + ", " +
         Shown(rail.rdma().service()) + ", sent " +
         HumanBytes(static_cast<double>(rail.sent_bytes())) + ", received " +
         HumanBytes(static_cast<double>(rail.received_bytes())) + ", at best " +
         HumanBytes(rail.delivery_bytes_per_second_best()) + "/s, round trip at least " +
         std::to_string(rail.round_trip_ns_min() / 1000) + " us, " +
         std::to_string(rail.rdma().lost_messages()) + " messages lost\n";
}

std::string Rails(const v1::StatusReply& status) {
  std::string text = "Rails, as the daemons tell\n";
  if (status.nodes_size() == 0) return text + "  no daemon answers\n";
  bool any = false;
  for (const v1::NodeStatus& node : status.nodes()) {
    if (!node.has_rdma()) {
      text += "  " + Shown(node.name()) +
              (node.answered() ? ": RDMA is off\n" : ": did not answer in time\n");
      continue;
    }
    text += "  " + Shown(node.name()) + ": devices " + Shown(node.rdma().state());
    if (!node.rdma().detail().empty()) text += ", " + Shown(node.rdma().detail());
    for (const v1::RdmaDevice& device : node.rdma().devices()) {
      text += "; " + Shown(device.name()) + " " + Shown(device.state()) + ", " +
              std::to_string(device.queue_pairs()) + " of " +
              std::to_string(device.queue_pairs_max()) + " queue pairs, " +
              std::to_string(device.regions()) + " of " + std::to_string(device.regions_max()) +
              " regions";
    }
    text += "\n";
    for (const v1::LinkStatus& link : node.links()) {
      for (const v1::RailStatus& rail : link.rails()) {
        if (rail.transport() != "rdma") continue;
        any = true;
        text += Rail(node, link, rail);
      }
    }
  }
  return any ? text : text + "  no rail\n";
}

std::string Said(const Words& words) {
  ProgramOptions options;
  options.with_errors = true;
  const auto output = RunProgram(words, options);
  std::string text = "$ " + CommandLine(words) + "\n" +
                     (output.ok() ? output->text : std::string(output.status().message()));
  while (text.ends_with('\n')) text.pop_back();
  return text + "\n";
}

std::string System() {
  std::string text = "Of the system\n";
#if defined(__APPLE__)
  const Words programs[] = {
      {"sw_vers"},     {"sysctl", "-n", "hw.model"}, {"/usr/bin/rdma_ctl", "status"},
      {"ibv_devices"}, {"ibv_devinfo", "-v"},        {"system_profiler", "SPThunderboltDataType"}};
#else
  const Words programs[] = {
      {"uname", "-sr"}, {"rdma", "link"}, {"ibv_devinfo", "-v"}, {"ls", "-l", "/dev/infiniband"}};
#endif
  for (const Words& words : programs) text += Said(words);
  return text;
}

}  // namespace

std::string RdmaReport(const RdmaReportOptions& options, const v1::StatusReply& status) {
  // First, for what is tried takes queue pairs that rails would have.
  std::string text = Rails(status) + "\n" + Limits(options) + "\n";
  std::vector<Device> devices;
  text += Devices(options, devices) + "\n";
  text += Trials(options, devices) + "\n";
  return text + System();
}

}  // namespace mlxcomm::ctl
