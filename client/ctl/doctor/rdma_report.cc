#include "client/ctl/doctor/rdma_report.h"

#include <vector>

#include "client/ctl/doctor/render_doctor.h"
#include "client/ctl/status/render_status.h"
#include "proto/status_words.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {
namespace {

using Words = std::vector<std::string>;

std::string Padded(std::string text, std::size_t width) {
  text = Shown(text);
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string Limits(const RdmaTrials& trials) {
  std::string text = "What is taken of devices\n";
  if (!trials.limits_trouble.empty()) return text + "  " + Shown(trials.limits_trouble) + "\n";
  for (const RdmaLimit& limit : trials.limits) {
    text += "  " + Padded(limit.name, 20) + "  " + Padded(limit.value, 16) + "  " +
            Shown(limit.source) + "\n";
  }
  return text;
}

std::string Devices(const RdmaTrials& trials) {
  std::string text = "Devices\n";
  if (!trials.devices_trouble.empty()) return text + "  " + Shown(trials.devices_trouble) + "\n";
  for (const TriedDevice& device : trials.devices) {
    text += "  " + Padded(device.name, 14) + Shown(device.state) + "\n";
  }
  return trials.devices.empty() ? text + "  there is none\n" : text;
}

std::string Tried(const RdmaTrials& trials) {
  std::string text = "Tried, each in a process of its own; nothing left this machine\n";
  if (trials.devices.empty()) return text + "  nothing: there is no device\n";
  if (!trials.trials_trouble.empty()) return text + "  " + Shown(trials.trials_trouble) + "\n";
  for (const TriedDevice& device : trials.devices) {
    text += "  " + Shown(device.name) +
            (device.active ? "\n" : ": only described, as its port is not active\n");
    for (const RdmaTrial& trial : device.trials) {
      text += "    " + Padded(trial.name, 18) + Padded(trial.verdict, 9) + Shown(trial.tries) +
              "\n" + std::string(31, ' ') + Shown(trial.text) + "\n";
    }
    if (!device.held) continue;
    text += "    the driver holds that process; nothing more is asked of it\n";
    return text;
  }
  return text;
}

std::string Rail(const v1::NodeStatus& node, const v1::LinkStatus& link,
                 const v1::RailStatus& rail) {
  std::string text = "  " + Shown(node.name()) + " " + Shown(rail.local_interface()) + " to " +
                     Shown(link.peer()) + " " + Shown(rail.remote_interface()) + ": " +
                     WordOf(rail.state());
  if (rail.state() != v1::RailState::up) {
    return text + ", " + WordOf(rail.reason()) + ": " + Shown(rail.detail()) + "\n";
  }
  return text + ", " + Shown(rail.local_address()) + " - " + Shown(rail.remote_address()) + ", " +
         Shown(rail.rdma().service()) + ", sent " +
         HumanBytes(static_cast<double>(rail.sent_bytes())) + ", received " +
         HumanBytes(static_cast<double>(rail.received_bytes())) + ", at best " +
         HumanRate(rail.delivery_bytes_per_second_best()) + ", round trip at least " +
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
        if (rail.transport() != v1::Transport::rdma) continue;
        any = true;
        text += Rail(node, link, rail);
      }
    }
  }
  return any ? text : text + "  no rail\n";
}

std::string WhatItSaid(const Words& words) {
  ProgramOptions options;
  options.with_errors = true;
  const auto output = RunProgram(words, options);
  std::string text = "$ " + CommandLine(words) + "\n" +
                     (output.ok() ? output->text : std::string(output.status().message()));
  while (text.ends_with('\n')) text.pop_back();
  return text + "\n";
}

std::string SystemReport() {
  std::string text = "Of the system\n";
#if defined(__APPLE__)
  const Words programs[] = {
      {"sw_vers"},     {"sysctl", "-n", "hw.model"}, {"/usr/bin/rdma_ctl", "status"},
      {"ibv_devices"}, {"ibv_devinfo", "-v"},        {"system_profiler", "SPThunderboltDataType"}};
#else
  const Words programs[] = {
      {"uname", "-sr"}, {"rdma", "link"}, {"ibv_devinfo", "-v"}, {"ls", "-l", "/dev/infiniband"}};
#endif
  for (const Words& words : programs) text += WhatItSaid(words);
  return text;
}

}  // namespace

std::string RdmaReport(const RdmaTrialsOptions& options, const v1::StatusReply& status) {
  // First, because trials take queue pairs that rails would have.
  const std::string rails = Rails(status);
  const RdmaTrials trials = TryRdma(options);
  return rails + "\n" + Limits(trials) + "\n" + Devices(trials) + "\n" + Tried(trials) + "\n" +
         SystemReport();
}

}  // namespace mlxcomm::ctl
