#include "client/ctl/rdma/section.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/doctor/linux_files.h"
#include "client/ctl/rdma/trials.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {
namespace {

void CollectDevices(SystemFacts& facts) {
#if defined(__APPLE__)
  // macOS before 26.2 does not have it.
  if (const auto reported = RunProgram({"/usr/bin/rdma_ctl", "status"}); reported.ok()) {
    facts.devices_enabled = ParseRdmaEnabled(reported->text);
  }
#else
  facts.devices = ListFolder("/sys/class/infiniband");
#endif
}

std::string LimitsText(const v1::RdmaTrials& rdma) {
  std::string text = "Assumptions about devices\n";
  if (rdma.limits().empty()) return text + "  " + Shown(rdma.trouble()) + "\n";
  for (const v1::RdmaTrialLimit& limit : rdma.limits()) {
    text += "  " + Padded(Shown(limit.name()), 20) + "  " + Padded(Shown(limit.value()), 16) +
            "  " + Shown(limit.source()) + "\n";
  }
  return text;
}

std::string TrialsText(const v1::RdmaTrials& rdma) {
  std::string text = "Devices and trials, each in its own process; nothing left this machine\n";
  if (!rdma.trouble().empty()) text += "  " + Shown(rdma.trouble()) + "\n";
  if (rdma.devices().empty()) text += "  none: this machine has no device\n";
  for (const v1::RdmaTrialDevice& device : rdma.devices()) {
    text += "  " + Padded(Shown(device.name()), 14) + Shown(device.state()) +
            (device.active() ? "\n" : ": no more trials, because its port is not active\n");
    for (const v1::RdmaTrial& trial : device.trials()) {
      text += "    " + Padded(Shown(trial.name()), 18) + Padded(Shown(trial.verdict()), 9) +
              Shown(trial.tries()) + "\n" + std::string(31, ' ') + Shown(trial.text()) + "\n";
    }
    if (device.held()) text += "    the driver holds that process, so the trials end here\n";
  }
  return text;
}

std::string TryDevices(const std::string& config_file) {
  const v1::RdmaTrials rdma = TryRdma({.config_file = config_file});
  return LimitsText(rdma) + "\n" + TrialsText(rdma);
}

std::vector<std::vector<std::string>> ProgramsThatReport() {
#if defined(__APPLE__)
  return {
      {"sw_vers"},     {"sysctl", "-n", "hw.model"}, {"/usr/bin/rdma_ctl", "status"},
      {"ibv_devices"}, {"ibv_devinfo", "-v"},        {"system_profiler", "SPThunderboltDataType"}};
#else
  return {
      {"uname", "-sr"}, {"rdma", "link"}, {"ibv_devinfo", "-v"}, {"ls", "-l", "/dev/infiniband"}};
#endif
}

}  // namespace

std::optional<bool> ParseRdmaEnabled(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  for (const char* const off : {"disabled", "not enabled", "off"}) {
    if (absl::StrContains(lower, off)) return false;
  }
  if (absl::StrContains(lower, "enabled")) return true;
  return std::nullopt;
}

constinit const Section kRdmaSection = {
    .collect = &CollectDevices,
    .check = &CheckRdma,
    .kinds = &RdmaFindingKinds,
    .name = "rdma",
    .devices = "RDMA devices",
    .footer =
        R"(--rdma needs neither a daemon nor a neighbour. It shows the assumptions about devices, the
outcome of each trial (worked, refused, hung, crashed), the rails and the output of the
system's programs. A refusal is not an error. The trials briefly take queue pairs and memory
regions from other programs on the device.)",
    .try_devices = &TryDevices,
    .programs = &ProgramsThatReport,
};

}  // namespace mlxcomm::ctl
