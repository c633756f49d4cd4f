#include "daemon/process/transports.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/process/config_file.h"
#include "daemon/rdma/rdma_rails.h"
#include "daemon/rdma/trials.h"
#include "proto/types/plain_text.h"

namespace mlxcomm {
namespace {

#ifdef __APPLE__
constexpr bool kOnApple = true;
#else
constexpr bool kOnApple = false;
#endif

rdma::RdmaOptions MakeRdmaOptions(const v1::RdmaConfig& config) {
  rdma::RdmaOptions options;
  options.enabled = config.has_enabled() ? config.enabled() : kOnApple;
  options.reports = config.enabled();
  options.library = config.library();
  options.probe_program = platform::OwnExecutable();
  options.driver_program = platform::OwnExecutable();
  const bool apples = config.limits() == v1::RdmaConfig::APPLE ||
                      (config.limits() == v1::RdmaConfig::SYSTEM && kOnApple);
  options.limits = apples ? rdma::AppleLimits(platform::MacosVersion()) : rdma::LinuxLimits();
  if (config.message_bytes() != 0) {
    options.limits.message_bytes = config.message_bytes();
    options.limits.message_bytes_max =
        std::max(options.limits.message_bytes_max, config.message_bytes());
  }
  if (config.messages() != 0) options.limits.messages_max = config.messages();
  if (config.has_receives_after_ready()) {
    options.limits.receives_after_ready = config.receives_after_ready();
  }
  if (config.has_remote_access()) options.limits.remote_access = config.remote_access();
  if (config.has_completion_events()) {
    options.limits.completion_events = config.completion_events();
  }
  return options;
}

// Lists the assumptions about devices: name, value and source (a system's limits, or the configuration).
std::string DescribeLimits(const v1::RdmaConfig& config) {
  const rdma::RdmaOptions options = MakeRdmaOptions(config);
  const rdma::Limits& limits = options.limits;
  const bool apples = limits.equal_frame_bytes != 0;
  const std::string kind = apples ? "assumed for Apple's devices" : "assumed for Linux devices";
  std::string text;
  const auto add = [&](const char* name, const auto& value, bool configured) {
    absl::StrAppend(&text, name, "\t", value, "\t", configured ? "configured" : kind, "\n");
  };
  const auto word = [](bool value) { return value ? "true" : "false"; };
  absl::StrAppend(&text, "enabled\t", word(options.enabled), "\t",
                  config.has_enabled() ? "configured" : "default", "\n");
  add("library", options.library.empty() ? "the system's own" : options.library.c_str(),
      !options.library.empty());
  add("service", limits.service == rdma::Service::kReliable ? "RC" : "UC", false);
  add("message_bytes", limits.message_bytes, config.message_bytes() != 0);
  add("message_bytes_max", limits.message_bytes_max, false);
  add("messages", limits.messages_max, config.messages() != 0);
  add("receives_after_ready", word(limits.receives_after_ready), config.has_receives_after_ready());
  add("remote_access", word(limits.remote_access), config.has_remote_access());
  add("completion_events", word(limits.completion_events), config.has_completion_events());
  add("error_before_destroy", word(limits.error_before_destroy), false);
  add("equal_frame_bytes", limits.equal_frame_bytes, false);
  add("frames_max", limits.frames_max, false);
  add("queue_pairs_max", limits.queue_pairs_max, false);
  add("regions_max", limits.regions_max, false);
  add("region_bytes_max", limits.region_bytes_max, false);
  add("region_boundary", limits.region_boundary, false);
  return text;
}

}  // namespace

fabric::SideRailsMaker MakeSideRails(const v1::DaemonConfig& config) {
  return
      [config](const link::FabricOptions& options, fabric::Links& links, platform::Wakeup& bell) {
        std::vector<std::unique_ptr<fabric::SideRails>> made;
        made.push_back(std::make_unique<rdma::RdmaRails>(MakeRdmaOptions(config.rdma()), options,
                                                         links, bell));
        return made;
      };
}

int TryRdma(const std::string& config_file, const std::string& name, const std::string& device) {
  const auto read = ReadConfigFile(config_file);
  const v1::RdmaConfig config = read.ok() ? read->rdma() : v1::RdmaConfig();
  const rdma::RdmaOptions options = MakeRdmaOptions(config);
  absl::StatusOr<std::string> reported;
  if (name == "limits") {
    reported = DescribeLimits(config);
    if (!read.ok()) {
      *reported +=
          "configuration\tdefaults\t" + MakePrintable(std::string(read.status().message())) + "\n";
    }
  } else {
    reported = rdma::RunTrial(name, {options.library, options.limits, device});
  }
  const std::string text =
      reported.ok() ? *reported : MakePrintable(std::string(reported.status().message()));
  std::printf("%s\n%s\n", reported.ok() ? "worked" : "refused", text.c_str());
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace mlxcomm
