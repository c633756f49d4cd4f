#include "client/ctl/status/status_parts.h"

#include <algorithm>
#include <vector>

#include "client/ctl/cli/quantities.h"
#include "client/ctl/status/health.h"
#include "proto/status_words.h"

namespace mlxcomm::ctl {
namespace {

constexpr char kSeeDoctor[] = " (mlxcommctl doctor says how to fix it)\n";
constexpr std::uint64_t kDriverSlowMs = 5'000;  // A call usually takes milliseconds.

// "en2 192.0.2.1:7470"; a loopback interface is named by its address.
std::string EndOf(const std::string& interface, const std::string& address) {
  if (interface.empty() || address.starts_with(interface)) return Shown(address);
  return Shown(interface) + (address.empty() ? "" : " " + Shown(address));
}

// "en5": macOS, which puts Thunderbolt ports into bridge0 by default, names ports so.
bool IsMacosPort(const std::string& name) {
  return name.size() > 2 && name.starts_with("en") &&
         name.find_first_not_of("0123456789", 2) == std::string::npos;
}

}  // namespace

std::string StateOf(const v1::NodeStatus& node) {
  std::string state = Shown(node.state());
  if (node.has_drain()) state += ", " + DrainText(node.drain());
  const v1::RestartStatus& restart = node.restart();
  const bool waits = node.has_restart() && restart.refused().empty() && !restart.taken_back();
  if (waits || IsRefused(restart)) state += ", " + RestartText(restart);
  return state;
}

bool Passes(const v1::RailStatus& rail) {
  if (!IsBeside(rail.transport())) return true;
  if (rail.reason() == v1::LinkReason::not_made) return !rail.peers_reason();
  return rail.reason() == v1::LinkReason::none || rail.reason() == v1::LinkReason::looking ||
         rail.reason() == v1::LinkReason::being_made;
}

std::string EndsOf(const v1::RailStatus& rail, const Painter& paint) {
  const std::string local = EndOf(rail.local_interface(), rail.local_address());
  return WordOf(rail.transport()) + " " + local + (local.empty() ? "" : " ") + "- " +
         EndOf(rail.remote_interface(), rail.remote_address()) + "  " +
         paint.State(WordOf(rail.state()));
}

void RenderDownRail(const v1::RailStatus& rail, const std::string& indent, const Painter& paint,
                    std::string& out) {
  out += indent + EndsOf(rail, paint);
  out += (rail.detail().empty() ? "" : "  " + Shown(rail.detail()));
  out += Passes(rail) ? "\n" : kSeeDoctor;
}

void RenderLinkFaults(const v1::LinkStatus& link, const std::string& indent, const Painter& paint,
                      std::string& out) {
  if (link.large_lost()) {
    const std::string on = link.large_lost_on().empty() ? "" : " on " + Shown(link.large_lost_on());
    out += indent + paint.Bad("small frames pass, large ones do not") + on + kSeeDoctor;
  }
  if (link.changed_frames() > 0) {
    out += indent + paint.Bad("bytes were changed or lost on the way") + ", " +
           Plural(link.changed_frames(), "time") + ", and sent again, last on " +
           Shown(link.changed_on()) + kSeeDoctor;
  }
}

std::string UsesOf(const v1::TransportDevice& device) {
  std::string text;
  for (const v1::DeviceUse& use : device.uses()) {
    text += (text.empty() ? "" : ", ") + std::to_string(use.used()) + " of " +
            Plural(use.most(), Shown(use.name()));
  }
  return text;
}

void RenderDevices(const v1::NodeStatus& node, bool slow_only, const std::string& indent,
                   std::string& out) {
  for (const v1::TransportStatus& transport : node.transports()) {
    for (const v1::TransportDevice& device : transport.devices()) {
      const bool is_slow = device.busy_ms() >= kDriverSlowMs;
      const bool is_used = std::ranges::any_of(
          device.uses(), [](const v1::DeviceUse& use) { return use.used() > 0; });
      if (!is_slow && (slow_only || !is_used)) continue;
      std::string use = UsesOf(device);
      if (is_slow) {
        use += (use.empty() ? "" : "; ") + std::string("its driver has not answered for ") +
               HumanTime(device.busy_ms());
      }
      out += indent + WordOf(transport.transport()) + " device " + Shown(device.name()) + "  " +
             use + "\n";
    }
  }
}

void RenderBridged(const v1::DiscoveryStatus& discovery, const std::string& indent,
                   std::string& out) {
  std::string ports;
  for (const v1::DiscoveryInterface& interface : discovery.interfaces()) {
    if (interface.reason() == v1::DiscoveryReason::bridge_member && IsMacosPort(interface.name()))
      ports += (ports.empty() ? "" : ", ") + Shown(interface.name());
  }
  if (ports.empty()) return;
  out += indent + "Thunderbolt Bridge (macOS's default) has " + ports +
         ": no RDMA, one path for all cables, encryption costs speed, a ring of cables floods it" +
         kSeeDoctor;
}

void RenderUnlinked(const v1::NodeStatus& node, const std::string& indent, std::string& out) {
  for (const v1::DiscoveredNeighbour& heard : node.discovery().neighbours()) {
    if (IsLinked(node, heard.id())) continue;
    out += indent + Shown(heard.name()) + "  heard on " + Shown(heard.local_interface()) + " " +
           HumanTime(heard.heard_ms_ago()) + " ago, not linked  its " +
           Shown(heard.remote_interface()) + " " + Shown(heard.address()) + "\n";
  }
}

std::string JobLine(const v1::JobStatus& job, bool count_ranks, const Painter& paint) {
  const int ranks = job.ranks_size();
  std::string line = paint.Bold(job.name()) + "  " + paint.State(job.state()) + "  ";
  if (count_ranks || ranks < static_cast<int>(job.size())) line += std::to_string(ranks) + " of ";
  line += Plural(job.size(), "rank");
  if (!job.user().empty()) line += ", user " + Shown(job.user());
  if (job.shrinks() > 0) line += ", shrunk from " + std::to_string(job.size_at_start());
  if (!job.detail().empty()) line += "  " + Shown(job.detail());
  return line + "\n";
}

void RenderCopies(const v1::JobStatus& job, const std::string& indent, std::string& out) {
  std::vector<std::uint32_t> ranks;
  std::uint64_t results = 0;
  double bytes = 0;
  double ns = 0;
  for (const v1::RankStatus& rank : job.ranks()) {
    if (rank.copied_results() == 0) continue;
    ranks.push_back(rank.rank());
    results += rank.copied_results();
    bytes += static_cast<double>(rank.copied_result_bytes());
    ns += static_cast<double>(rank.copied_result_ns());
  }
  if (ranks.empty()) return;
  // The mean, because ranks copy at the same time.
  const double mean_ms = ns / 1e6 / static_cast<double>(ranks.size());
  out += indent + "results are copied out of shared memory on " + RanksOf(ranks) + ": " +
         Plural(results, "result") + ", " + HumanBytes(bytes) + ", " +
         HumanTime(static_cast<std::uint64_t>(mean_ms)) +
         " a rank so far (MLX does not accept that memory there, or MLXCOMM_RESULTS=copy)\n";
}

std::string HealthLine(const v1::StatusReply& status, const Painter& paint) {
  const Health health = HealthOf(status);
  return "health: " + (health.good ? paint.Good(health.text) : paint.Bad(health.text)) + "\n";
}

void RenderFailedJobs(const v1::StatusReply& status, const std::string& before,
                      const Painter& paint, std::string& out) {
  constexpr std::uint64_t kShownMax = 5;
  std::uint64_t failed = 0;
  for (const v1::EndedJob& job : status.ended_jobs()) {
    if (!HasFailed(job) || failed++ >= kShownMax) continue;
    out += before + paint.Bad(Shown(job.name() + " " + HowItFailed(job))) + "\n";
  }
  if (failed > kShownMax) {
    out += "and " + Plural(failed - kShownMax, "job") +
           " more that failed (--json lists all of them)\n";
  }
}

void RenderWaits(const google::protobuf::RepeatedPtrField<v1::WaitStatus>& reported,
                 const std::string& indent, std::string& out) {
  // Ranks that wait for the same ranks in the same operation share a line.
  std::vector<v1::WaitStatus> waits;
  for (const v1::WaitStatus& wait : reported) {
    const auto same = std::ranges::find_if(waits, [&](const v1::WaitStatus& other) {
      return other.operation() == wait.operation() &&
             std::ranges::equal(other.awaited(), wait.awaited());
    });
    if (same == waits.end()) {
      waits.push_back(wait);
    } else {
      same->mutable_waiting()->MergeFrom(wait.waiting());
      same->set_age_ms(std::max(same->age_ms(), wait.age_ms()));
    }
  }
  for (const v1::WaitStatus& wait : waits) {
    out += indent + RanksOf(wait.waiting()) + (wait.waiting_size() == 1 ? " waits" : " wait") +
           " for " + RanksOf(wait.awaited()) + " in " + Shown(wait.operation()) + " for " +
           HumanTime(wait.age_ms()) + "\n";
  }
}

}  // namespace mlxcomm::ctl
