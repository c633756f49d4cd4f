#include "tests/sim/script.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace mlxcomm::sim {
namespace {

constexpr std::size_t kCablesMax = 16;
constexpr std::size_t kHostsMax = 16;
constexpr std::size_t kPullsMax = 1024;
constexpr std::uint64_t kTimeMaxUs = 24 * 3600 * std::uint64_t{1'000'000};
// After the last cable is back: all consequences have happened by then.
constexpr std::uint64_t kEndsAfter = 20 * kSecond;

using Words = std::vector<absl::string_view>;

bool TimeOf(absl::string_view word, std::uint64_t& ns) {
  std::uint64_t us = 0;
  if (!absl::SimpleAtoi(word, &us) || us > kTimeMaxUs) return false;
  ns = us * 1000;
  return true;
}

// False if the line is not valid.
bool Take(const Words& words, Scenario& scenario) {
  if (words[0] == "grace_us" && words.size() == 2) {
    return TimeOf(words[1], scenario.daemon.node.fabric.grace_period_ns);
  }
  if (words[0] == "cable" && (words.size() == 3 || words.size() == 5)) {
    CablePlan cable;
    cable.b = 1;
    if (words.size() == 5 &&
        !(absl::SimpleAtoi(words[3], &cable.a) && absl::SimpleAtoi(words[4], &cable.b) &&
          cable.a < cable.b && cable.b < kHostsMax)) {
      return false;
    }
    scenario.hosts = std::max(scenario.hosts, cable.b + 1);
    cable.options.reliable = words[1] == "tcp";
    cable.options.carrier_reports = words[2] == "reported";
    scenario.cables.push_back(cable);
    return (words[1] == "tcp" || words[1] == "rdma") &&
           (words[2] == "reported" || words[2] == "silent") && scenario.cables.size() <= kCablesMax;
  }
  const bool small = words[0] == "small";
  const bool swallow = words[0] == "swallow";
  if ((words[0] == "pull" || small || swallow) && words.size() == 4) {
    Fault fault;
    if (small) fault.kind = Fault::Kind::kSmallOnly;
    if (swallow) fault.kind = Fault::Kind::kSwallow;
    if (!absl::SimpleAtoi(words[1], &fault.target) || fault.target >= scenario.cables.size() ||
        !TimeOf(words[2], fault.at_ns) || !TimeOf(words[3], fault.duration_ns)) {
      return false;
    }
    fault.at_ns += kScriptBegins;
    scenario.runs_until_ns =
        std::max(scenario.runs_until_ns, fault.at_ns + fault.duration_ns + kEndsAfter);
    scenario.faults.push_back(fault);
    return scenario.faults.size() <= kPullsMax;
  }
  return false;
}

}  // namespace

absl::StatusOr<Scenario> ParseScript(const std::string& text) {
  Scenario scenario;
  scenario.seed = 1;
  scenario.description = "a script";
  scenario.daemon.node.fabric.cluster = "sim";
  scenario.runs_until_ns = kScriptBegins + kEndsAfter;
  std::size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const Words words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.empty() || Take(words, scenario)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "line ", number,
        ": expected grace_us TIME, cable tcp|rdma reported|silent [HOST HOST], or "
        "pull|small|swallow CABLE AT_US FOR_US, with at most ",
        kHostsMax, " hosts, ", kCablesMax, " cables and ", kPullsMax, " pulls, of a day"));
  }
  if (scenario.cables.empty()) return absl::InvalidArgumentError("no cable");
  std::stable_sort(scenario.faults.begin(), scenario.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at_ns < b.at_ns; });
  scenario.end_ns = scenario.runs_until_ns + kSecond;
  return scenario;
}

}  // namespace mlxcomm::sim
