// Steps that need this machine alone.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/ctl/cli/installed_files.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/doctor/collect.h"
#include "client/ctl/doctor/diagnosis.h"
#include "client/ctl/doctor/rdma_trials.h"
#include "client/ctl/firstlight/assumptions.h"
#include "client/ctl/firstlight/steps.h"
#include "proto/system/program.h"
#include "proto/types/version.h"

namespace mlxcomm::ctl {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// The output of one of the system's programs, or empty.
[[maybe_unused]] std::string Said(const Words& words) {
  const auto output = RunProgram(words);
  return output.ok() && output->exit_code == 0 ? output->text : "";
}

ProgramOptions Within(const Lit& lit, std::uint64_t most_ns) {
  ProgramOptions options;
  options.timeout_ns = std::min(lit.left_ns(), most_ns);
  return options;
}

void DescribeSystem(Notes& notes) {
  auto& system = *notes.document.mutable_system();
#if defined(__APPLE__)
  system["kind"] = "macOS";
  system["release"] = FirstLine(Said({"sw_vers", "-productVersion"}));
  system["build"] = FirstLine(Said({"sw_vers", "-buildVersion"}));
  system["model"] = FirstLine(Said({"sysctl", "-n", "hw.model"}));
  system["processor"] = FirstLine(Said({"sysctl", "-n", "machdep.cpu.brand_string"}));
  system["memory_bytes"] = FirstLine(Said({"sysctl", "-n", "hw.memsize"}));
#else
  system["kind"] = "Linux";
  system["release"] = FirstLine(Said({"uname", "-r"}));
  system["machine"] = FirstLine(Said({"uname", "-m"}));
#endif
  system["mlxcommctl"] = kSoftwareVersion;
  system["mlxcommd"] = FirstLine(Said({"mlxcommd", "--version"}));
}

void NoteInterfaces(const CollectOptions& options, Notes& notes) {
  for (const InterfaceFacts& one : CollectSystem(options).interfaces) {
    v1::FirstLightInterface& told = *notes.document.add_interfaces();
    told.set_name(one.name);
    told.set_hardware(one.hardware);
    told.set_running(one.running);
    told.set_thunderbolt(one.thunderbolt);
    told.set_mtu(one.mtu);
    told.set_bridge(one.bridge);
    told.set_has_link_local(one.has_link_local);
  }
}

void JudgePorts(Notes& notes) {
  std::string services;
#if defined(__APPLE__)
  services = Said({"/usr/sbin/networksetup", "-listnetworkserviceorder"});
#endif
  bool any = false;
  bool any_bridged = false;
  std::string bridged;
  for (const v1::FirstLightInterface& one : notes.document.interfaces()) {
    if (!one.thunderbolt() || one.name().starts_with("bridge")) continue;
    any = true;
    if (one.running()) {
      notes.Judge(one.has_link_local(), "port-link-local",
                  one.name() + (one.has_link_local() ? " has one" : " has none"));
    }
    if (!services.empty()) {
      const bool has = absl::StrContains(services, "Device: " + one.name() + ")");
      notes.Judge(has, "port-service", one.name() + (has ? " has one" : " has none"));
    }
    any_bridged = any_bridged || !one.bridge().empty();
    bridged += absl::StrCat(bridged.empty() ? "" : ", ", one.name(),
                            one.bridge().empty() ? " is in no bridge" : " is in " + one.bridge());
  }
  if (any) return notes.Judge(any_bridged, "port-bridge", bridged);
  for (const char* const id : {"port-link-local", "port-service", "port-bridge"}) {
    notes.LeaveOut(id, "no Thunderbolt port is seen here");
  }
}

// Another program's JSON may have another type there.
double Number(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}
std::string Text(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// For each size: whether any value was wrong, and the best bandwidth.
std::string ReadBench(const std::string& text, Notes& notes, const std::string& what,
                      const char* values_id, const char* rate_id) {
  const json all = json::parse(text, nullptr, false);
  if (!all.is_object() || !all.contains("results") || !all["results"].is_array()) {
    return "bench said what is no JSON";
  }
  double wrong = 0;
  std::size_t sizes = 0;
  for (const json& one : all["results"]) {
    if (!one.is_object()) continue;
    const double bytes = Number(one, "bytes");
    const double rate = Number(one, "bus_bytes_per_second");
    wrong += Number(one, "wrong");
    ++sizes;
    notes.Measure(absl::StrCat(what, " all_reduce of ", bytes, " B"), Number(one, "time_us"), "us");
    if (bytes >= 134217728 && rate_id != nullptr) {
      notes.Judge(rate >= 4e9, rate_id, absl::StrCat(rate / 1e9, " GB/s"));
    }
    if (rate > 0) notes.Measure(absl::StrCat(what, " bus bandwidth at ", bytes, " B"), rate, "B/s");
  }
  notes.Judge(wrong == 0 && sizes > 0, values_id,
              absl::StrCat(sizes, " sizes, ", wrong, " wrong elements"));
  return {};
}

}  // namespace

std::string StepSystem(Lit& lit) {
  DescribeSystem(lit.notes);
  CollectOptions options;
  options.config_file = lit.config_file;
  NoteInterfaces(options, lit.notes);
  for (const Finding& finding : Diagnose({lit.own_path, lit.socket_path, lit.config_file})) {
    lit.notes.document.add_findings(
        absl::StrCat(finding.code, " ", finding.object, ": ", finding.found));
  }
  JudgePorts(lit.notes);
  return {};
}

std::string StepPlatform(Lit& lit) {
  const auto list =
      RunProgram({"mlxcommd", "--try-platform", "trials"}, Within(lit, 10 * kSecondNs));
  if (!list.ok()) return std::string(list.status().message());
  if (list->exit_code != 0) return "this mlxcommd has no trials: install the same release of both";
  for (const absl::string_view line : absl::StrSplit(list->text, '\n', absl::SkipEmpty())) {
    const std::string name(line.substr(0, line.find('\t')));
    if (FindAssumption(name) == nullptr) continue;
    const auto told = RunProgram({"mlxcommd", "--try-platform", name}, Within(lit, 15 * kSecondNs));
    if (!told.ok()) {
      lit.notes.Refute(name, std::string(told.status().message()));
      continue;
    }
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(told->text, absl::MaxSplits('\n', 1));
    const std::string seen = FirstLine(parts.second);
    if (told->exit_code != 0) {
      lit.notes.Refute(name, absl::StrCat("its process ended with ", told->exit_code));
    } else if (parts.first == "untried") {
      lit.notes.LeaveOut(name, seen);
    } else {
      lit.notes.Judge(parts.first == "holds", name, seen);
    }
  }
  return {};
}

// Ranks of the Python package beside this program; each line of their output is a verdict
// (client/python/mlxcomm/first_light.py).
std::string StepGpu(Lit& lit) {
  std::string python = FindProgramBeside(lit.own_path, "python3", "bin");
  if (python.empty()) {
    return "there is no Python beside mlxcommctl: install the Python package, and run the "
           "mlxcommctl of "
           "its environment";
  }
  Words words = {lit.own_path, "launch", "-n", "2"};
  if (!lit.socket_path.empty()) words.insert(words.end(), {"--socket", lit.socket_path});
  words.insert(words.end(),
               {"--", python, "-m", "mlxcomm.first_light", std::to_string(lit.large_bytes)});
  ProgramOptions options = Within(lit, lit.left_ns());
  options.with_errors = true;
  const auto told = RunProgram(words, options);
  if (!told.ok()) return std::string(told.status().message());
  std::string last;
  std::size_t verdicts = 0;
  for (const absl::string_view line : absl::StrSplit(told->text, '\n', absl::SkipEmpty())) {
    last = std::string(line);
    const json verdict =
        json::parse(line.substr(std::min(line.find('{'), line.size())), nullptr, false);
    if (!verdict.is_object()) continue;
    const std::string id = Text(verdict, "assumption");
    const Assumption* const known = FindAssumption(id);
    if (known == nullptr || known->step != "gpu") continue;
    ++verdicts;
    const std::string seen = Text(verdict, "seen");
    const std::string what = Text(verdict, "verdict");
    if (what == "not tried") {
      lit.notes.LeaveOut(id, seen);
    } else {
      lit.notes.Judge(what == "confirmed", id, seen);
    }
  }
  if (told->exit_code == 0) return verdicts > 0 ? "" : "it said nothing";
  const std::string how = absl::StrCat("its processes ended with ", told->exit_code, ": ", last);
  if (absl::StrContains(told->text, "No module named")) return how;
  for (const char* const id : {"gpu-small", "gpu-large"}) {
    if (lit.notes.Of(id).verdict != Verdict::kConfirmed) lit.notes.Refute(id, how);
  }
  return {};
}

std::string StepLoopback(Lit& lit) {
  const std::uint64_t most = std::min<std::uint64_t>(lit.large_bytes, std::uint64_t{128} << 20);
  Words words = {lit.own_path,         "bench", "-n", "2", "-f", "16", "-i", "5", "-w", "2", "-e",
                 std::to_string(most), "--json"};
  if (!lit.socket_path.empty()) words.insert(words.end(), {"--socket", lit.socket_path});
  const auto told = RunProgram(words, Within(lit, lit.left_ns()));
  if (!told.ok()) return std::string(told.status().message());
  if (told->exit_code != 0) return absl::StrCat("mlxcommctl bench ended with ", told->exit_code);
  return ReadBench(told->text, lit.notes, "two ranks here,", "loopback-values", "loopback-rate");
}

namespace {

std::optional<std::uint64_t> LeadingNumber(const std::string& text) {
  const std::size_t end = text.find_first_not_of("0123456789");
  std::uint64_t number = 0;
  if (!absl::SimpleAtoi(text.substr(0, end), &number)) return std::nullopt;
  return number;
}

bool IsIpv4(const std::string& gid) { return gid.find(':') == std::string::npos; }

void JudgeDevice(const v1::FirstLightDevice& device, Notes& notes) {
  const std::string name = device.name() + ": ";
  const auto& interfaces = notes.document.interfaces();
  const auto own = std::find_if(interfaces.begin(), interfaces.end(), [&](const auto& one) {
    return device.name() == "rdma_" + one.name();
  });
  const bool has_own = own != interfaces.end();
  notes.Judge(has_own, "rdma-names",
              device.name() + (has_own ? " is of " + own->name() : " is of no interface"));
  if (!device.active()) return;
  std::string gids;
  for (const std::string& gid : device.gids()) gids += (gids.empty() ? "" : ", ") + gid;
  notes.Judge(std::any_of(device.gids().begin(), device.gids().end(), IsIpv4), "rdma-gid-ipv4",
              name + (gids.empty() ? "it has none" : gids));
  if (!device.gids().empty()) {
    notes.Judge(device.gids()[0].starts_with("fe80:"), "rdma-gid-first", name + device.gids()[0]);
  }
  for (const v1::FirstLightTrial& trial : device.trials()) {
    const std::string seen = name + trial.verdict() + ", " + FirstLine(trial.text());
    for (const TrialAssumption& one : TrialAssumptions()) {
      if (one.trial == trial.name()) notes.Judge(trial.verdict() == one.confirming, one.id, seen);
    }
    if (trial.name() != "pairs" && trial.name() != "regions") continue;
    const auto count = LeadingNumber(trial.text());
    const std::uint64_t most = trial.name() == "pairs" ? 10 : 100;
    notes.Judge(trial.verdict() == "worked" && count && *count > 0 && *count <= most,
                trial.name() == "pairs" ? "rdma-pairs" : "rdma-regions", seen);
  }
}

}  // namespace

std::string StepRdma(Lit& lit) {
  RdmaTrialsOptions options;
  options.config_file = lit.config_file;
  options.all_timeout_ns = lit.left_ns();
  if (lit.notes.document.interfaces().empty()) NoteInterfaces({}, lit.notes);
  v1::FirstLightRdma& rdma = *lit.notes.document.mutable_rdma();
  rdma = TryRdma(options);
  if (rdma.devices().empty())
    return rdma.trouble().empty() ? "there is no RDMA device" : FirstLine(rdma.trouble());
  for (const v1::FirstLightDevice& device : rdma.devices()) JudgeDevice(device, lit.notes);
  const bool any_active = std::any_of(rdma.devices().begin(), rdma.devices().end(),
                                      [](const auto& device) { return device.active(); });
  return any_active ? "" : "no RDMA device has an active port: no cable, or RDMA is not enabled";
}

std::string StepPower(Lit& lit) {
#if defined(__APPLE__)
  const auto told =
      RunProgram({"/usr/bin/caffeinate", "-ims", "/usr/bin/pmset", "-g", "assertions"},
                 Within(lit, 15 * kSecondNs));
  if (!told.ok()) return std::string(told.status().message());
  bool held = false;
  for (const absl::string_view line : absl::StrSplit(told->text, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
    held =
        held || (words.size() == 2 && words[0] == "PreventUserIdleSystemSleep" && words[1] == "1");
  }
  lit.notes.Judge(held, "power-assertion",
                  held ? "PreventUserIdleSystemSleep is held" : "pmset shows no such assertion");
  return {};
#else
  static_cast<void>(lit);
  return "it is of macOS alone";
#endif
}

std::string StepCable(Lit& lit) {
  CableFound cable;
  if (std::string why = FindCable(lit, cable); !why.empty()) return why;
  const bool first = cable.node < cable.peer;
  const std::string job =
      "firstlight-" + (first ? cable.node + "-" + cable.peer : cable.peer + "-" + cable.node);
  if (lit.prompts.is_person()) {
    Prompts::Tell("    Run mlxcommctl firstlight on " + cable.peer +
                  " as well, now: two minutes are waited for it.\n");
  }
  const std::uint64_t most = std::min<std::uint64_t>(lit.large_bytes, std::uint64_t{128} << 20);
  Words words = {lit.own_path, "bench", "--rank", first ? "0" : "1",
                 "--size",     "2",     "--job",  job,
                 "-f",         "16",    "-i",     "5",
                 "-w",         "2",     "-e",     std::to_string(most),
                 "--json"};
  if (!lit.socket_path.empty()) words.insert(words.end(), {"--socket", lit.socket_path});
  const auto told = RunProgram(words, Within(lit, lit.left_ns()));
  if (!told.ok())
    return "mlxcommctl firstlight does not run on " + cable.peer + " at the same time";
  if (told->exit_code != 0) return absl::StrCat("mlxcommctl bench ended with ", told->exit_code);
  if (first) return ReadBench(told->text, lit.notes, "over the cable,", "cable-values", nullptr);
  lit.notes.Confirm("cable-values", "as its first rank says, whose file has the figures");
  return {};
}

}  // namespace mlxcomm::ctl
