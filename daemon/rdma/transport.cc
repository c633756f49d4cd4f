#include "daemon/rdma/transport.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/rdma/driver_process.h"
#include "daemon/rdma/probe.h"
#include "daemon/rdma/rdma_rails.h"
#include "daemon/rdma/trials.h"
#include "mlxcomm/v1/config.pb.h"
#include "mlxcomm/v1/ctl.pb.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::rdma {
namespace {

#ifdef __APPLE__
constexpr bool kOnApple = true;
#else
constexpr bool kOnApple = false;
#endif

RdmaOptions MakeOptions(const v1::RdmaConfig& config) {
  RdmaOptions options;
  options.enabled = config.has_enabled() ? config.enabled() : kOnApple;
  options.reports = config.enabled();
  options.library = config.library();
  options.probe_program = platform::OwnExecutable();
  options.driver_program = platform::OwnExecutable();
  const bool apples = config.limits() == v1::RdmaConfig::APPLE ||
                      (config.limits() == v1::RdmaConfig::SYSTEM && kOnApple);
  options.limits = apples ? AppleLimits(platform::MacosVersion()) : LinuxLimits();
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

// The assumptions about devices. `source`: a system's limits, or the configuration.
v1::RdmaTrials DescribeLimits(const v1::RdmaConfig& config) {
  const RdmaOptions options = MakeOptions(config);
  const Limits& limits = options.limits;
  const bool apples = limits.equal_frame_bytes != 0;
  const std::string kind = apples ? "assumed for Apple's devices" : "assumed for Linux devices";
  v1::RdmaTrials all;
  const auto add = [&](const char* name, const auto& value, bool configured) {
    v1::RdmaTrialLimit& limit = *all.add_limits();
    limit.set_name(name);
    limit.set_value(absl::StrCat(value));
    limit.set_source(configured ? "configured" : kind);
  };
  const auto word = [](bool value) { return value ? "true" : "false"; };
  add("enabled", word(options.enabled), config.has_enabled());
  if (!config.has_enabled()) all.mutable_limits(0)->set_source("default");
  add("library", options.library.empty() ? "the system's own" : options.library.c_str(),
      !options.library.empty());
  add("service", limits.service == Service::kReliable ? "RC" : "UC", false);
  add("message_bytes", limits.message_bytes, config.message_bytes() != 0);
  add("message_bytes_max", limits.message_bytes_max, false);
  add("messages", limits.messages_max, config.messages() != 0);
  add("receives_after_ready", word(limits.receives_after_ready), config.has_receives_after_ready());
  add("remote_access", word(limits.remote_access), config.has_remote_access());
  add("completion_events", word(limits.completion_events), config.has_completion_events());
  add("equal_frame_bytes", limits.equal_frame_bytes, false);
  add("frames_max", limits.frames_max, false);
  add("queue_pairs_max", limits.queue_pairs_max, false);
  add("regions_max", limits.regions_max, false);
  add("region_bytes_max", limits.region_bytes_max, false);
  add("region_boundary", limits.region_boundary, false);
  return all;
}

std::unique_ptr<fabric::SideRails> MakeRails(const v1::DaemonConfig& config,
                                             const link::FabricOptions& options,
                                             fabric::Links& links, platform::Wakeup& bell) {
  return std::make_unique<RdmaRails>(MakeOptions(config.rdma()), options, links, bell);
}

// Runs a trial (trials.h): CONFIG NAME [DEVICE]. Prints "worked" or "refused" and the details. A
// configuration that cannot be read counts as empty, which is reported.
int PrintTrial(char** words, fabric::ReadConfig read_config) {
  const auto read = read_config(words[0]);
  const std::string name = words[1];
  const v1::RdmaConfig config = read.ok() ? read->rdma() : v1::RdmaConfig();
  const RdmaOptions options = MakeOptions(config);
  absl::StatusOr<std::string> reported;
  if (name == "limits") {
    v1::RdmaTrials all = DescribeLimits(config);
    if (!read.ok()) {
      v1::RdmaTrialLimit& limit = *all.add_limits();
      limit.set_name("configuration");
      limit.set_value("defaults");
      limit.set_source(MakePrintable(std::string(read.status().message())));
    }
    reported = TextOf(all);
  } else {
    reported =
        RunTrial(name, {options.library, options.limits, words[2] == nullptr ? "" : words[2]});
  }
  const std::string text =
      reported.ok() ? *reported : MakePrintable(std::string(reported.status().message()));
  std::printf("%s\n%s\n", reported.ok() ? "worked" : "refused", text.c_str());
  return std::fflush(stdout) == 0 ? 0 : 1;
}

// Each is a process of its own, because the driver may hang or crash it.
constexpr fabric::ChildMode kChildModes[] = {
    {kProbeArgument, 1, [](char** words, fabric::ReadConfig) { return RunProbe(words[0]); }},
    {kDriverArgument, 1, [](char**, fabric::ReadConfig) { return RunDriver(kDriverSocket); }},
    {kTrialArgument, 2, &PrintTrial},
    {kTrialArgument, 3, &PrintTrial},
};

}  // namespace

constinit const fabric::SideTransport kTransport = {&MakeRails, kChildModes};

}  // namespace mlxcomm::rdma
