#include "client/ctl/status/render_status.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "client/ctl/cli/quantities.h"
#include "proto/status_words.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

// A call of an RDMA driver takes milliseconds.
constexpr std::uint64_t kDriverSlowMs = 5'000;

class Painter {
 public:
  explicit Painter(bool colours) : colours_(colours) {}
  std::string Bold(const std::string& text) const { return Wrap("1", Shown(text)); }
  std::string Good(const std::string& text) const { return Wrap("32", Shown(text)); }
  std::string Bad(const std::string& text) const { return Wrap("31", Shown(text)); }
  std::string State(const std::string& text) const {
    return text == "up" || text == "running" ? Good(text) : Bad(text);
  }

 private:
  std::string Wrap(const char* code, const std::string& text) const {
    return colours_ ? "\x1b[" + std::string(code) + "m" + text + "\x1b[0m" : text;
  }
  bool colours_;
};

// "rank 3", "ranks 0, 2", "ranks 0-62, 64": consecutive numbers are joined, because there may be
// thousands.
template <typename Numbers>
std::string RanksOf(const Numbers& ranks) {
  using Index = decltype(ranks.size());
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (Index i = 0; i < ranks.size();) {
    Index last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last - i < 2) last = i;
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

// "en2 192.0.2.1:7470"; on a loopback interface its name is the address.
std::string EndOf(const std::string& interface, const std::string& address) {
  if (interface.empty() || address.starts_with(interface)) return Shown(address);
  return Shown(interface) + (address.empty() ? "" : " " + Shown(address));
}

// An attempt that goes on or is repeated; for connections the health line says more.
bool Passes(const v1::RailStatus& rail) {
  if (rail.transport() != v1::Transport::rdma) return true;
  if (rail.reason() == v1::LinkReason::rdma_not_made) return !rail.peers_reason();
  return rail.reason() == v1::LinkReason::none || rail.reason() == v1::LinkReason::rdma_looking ||
         rail.reason() == v1::LinkReason::rdma_being_made;
}

void RenderRail(const v1::RailStatus& rail, const Painter& paint, std::string& out) {
  const std::string local = EndOf(rail.local_interface(), rail.local_address());
  out += "      " + WordOf(rail.transport()) + " " + local + (local.empty() ? "" : " ") + "- " +
         EndOf(rail.remote_interface(), rail.remote_address()) + "  " +
         paint.State(WordOf(rail.state()));
  if (rail.state() != v1::RailState::up) {
    out += (rail.detail().empty() ? "" : "  " + Shown(rail.detail()));
    out += Passes(rail) ? "\n" : " (mlxcommctl doctor says what mends it)\n";
    return;
  }
  if (!rail.rdma().service().empty()) out += "  " + Shown(rail.rdma().service());
  if (!rail.security().empty())
    out += rail.security() == "tls" ? "  TLS" : "  " + Shown(rail.security());
  out += "  out " + HumanBytes(rail.sent_bytes_per_second()) + "/s, in " +
         HumanBytes(rail.received_bytes_per_second()) + "/s";
  if (rail.delivery_bytes_per_second() > 0) {
    out += ", has carried " + HumanBytes(rail.delivery_bytes_per_second()) + "/s, at best " +
           HumanBytes(rail.delivery_bytes_per_second_best()) + "/s";
  }
  if (rail.round_trip_ns() > 0) {
    out += ", round trip " + std::to_string(rail.round_trip_ns() / 1000) + " us";
  }
  out += ", " + HumanBytes(static_cast<double>(rail.sent_bytes())) + " sent, " +
         HumanBytes(static_cast<double>(rail.received_bytes())) + " received";
  if (rail.arena_regions_max() > 0) {
    out += ", " + HumanBytes(static_cast<double>(rail.direct_bytes())) + " sent without a copy, " +
           std::to_string(rail.arena_regions()) + " of " +
           Plural(rail.arena_regions_max(), "region");
  }
  // Unreliable ones may lose messages: the daemon has sent the contents again.
  if (rail.rdma().lost_messages() > 0) {
    out += ", " + Plural(rail.rdma().lost_messages(), "message") + " lost and made good";
  }
  out += "\n";
}

// Devices that are in use: how much of their resources.
void RenderRdma(const v1::NodeStatus& node, std::string& out) {
  for (const v1::RdmaDevice& device : node.rdma().devices()) {
    if (device.queue_pairs() == 0 && device.regions() == 0 && device.busy_ms() < kDriverSlowMs)
      continue;
    std::string use;
    if (device.queue_pairs_max() > 0) {
      use = std::to_string(device.queue_pairs()) + " of " +
            Plural(device.queue_pairs_max(), "queue pair") + ", " +
            std::to_string(device.regions()) + " of " +
            Plural(device.regions_max(), "memory region");
    }
    if (device.busy_ms() >= kDriverSlowMs) {
      use += (use.empty() ? "" : "; ") + std::string("its driver has not answered for ") +
             HumanTime(device.busy_ms());
    }
    out += "    RDMA device " + Shown(device.name()) + "  " + use + "\n";
  }
}

// Against the limits.
void RenderUse(const v1::UseStatus& use, std::string& out) {
  out += "    user " + Shown(use.user()) + "  " + std::to_string(use.clients()) + " of " +
         Plural(use.clients_max(), "client") + ", " +
         HumanBytes(static_cast<double>(use.arena_bytes())) + " of " +
         HumanBytes(static_cast<double>(use.arena_bytes_max())) + " for arenas, " +
         std::to_string(use.operations()) + " of " + Plural(use.operations_max(), "operation") +
         " in flight, " + std::to_string(use.groups()) + " of " +
         Plural(use.groups_max(), "group") + "\n";
}

// Not configured, or not usable: not worth a line on machines with dozens.
bool IsLeftOutByItself(const v1::DiscoveryInterface& interface) {
  return interface.reason() == v1::DiscoveryReason::loopback ||
         interface.reason() == v1::DiscoveryReason::unless_named;
}

// A link leads to it, whose state is shown there.
bool IsLinked(const v1::NodeStatus& node, const std::string& id) {
  return std::any_of(node.links().begin(), node.links().end(),
                     [&id](const v1::LinkStatus& link) { return link.peer_id() == id; });
}

// "en5": macOS's names of ports. It puts Thunderbolt ports into bridge0 by default.
bool IsMacosPort(const std::string& name) {
  return name.size() > 2 && name.starts_with("en") &&
         name.find_first_not_of("0123456789", 2) == std::string::npos;
}

// That Thunderbolt ports are in a bridge, and what that costs.
void RenderBridged(const v1::DiscoveryStatus& discovery, std::string& out) {
  std::string ports;
  for (const v1::DiscoveryInterface& interface : discovery.interfaces()) {
    if (interface.reason() == v1::DiscoveryReason::bridge_member && IsMacosPort(interface.name()))
      ports += (ports.empty() ? "" : ", ") + Shown(interface.name());
  }
  if (ports.empty()) return;
  out += "    Thunderbolt Bridge (macOS's default) has " + ports +
         ": no RDMA, one path for all cables, encryption costs speed, a ring of cables floods it "
         "(mlxcommctl doctor says what mends it)\n";
}

// Where neighbours are looked for, and those that were heard but are not linked.
void RenderDiscovery(const v1::NodeStatus& node, std::string& out) {
  if (!node.has_discovery()) return;
  const v1::DiscoveryStatus& discovery = node.discovery();
  std::string used;
  std::vector<std::pair<std::string, std::string>> unused;  // The reason, and the interfaces.
  for (const v1::DiscoveryInterface& interface : discovery.interfaces()) {
    const std::string name = Shown(interface.name());
    if (interface.used()) {
      used += (used.empty() ? "" : ", ") + name;
      if (!interface.detail().empty()) used += " (" + Shown(interface.detail()) + ")";
    } else if (!IsLeftOutByItself(interface)) {
      const auto same = std::find_if(unused.begin(), unused.end(), [&interface](const auto& one) {
        return one.first == interface.detail();
      });
      if (same == unused.end()) {
        unused.emplace_back(interface.detail(), name);
      } else {
        same->second += ", " + name;
      }
    }
  }
  out += used.empty() ? "    looks for neighbours on no interface"
                      : "    looks for neighbours on " + used;
  for (const auto& [why, names] : unused) out += "; not on " + names + " (" + Shown(why) + ")";
  if (discovery.foreign() > 0) {
    out += "; has heard " + Plural(discovery.foreign(), "hello") + " of other clusters or keys";
  }
  out += "\n";
  RenderBridged(discovery, out);
  for (const v1::DiscoveredNeighbour& heard : discovery.neighbours()) {
    if (IsLinked(node, heard.id())) continue;
    out += "      " + Shown(heard.name()) + "  heard on " + Shown(heard.local_interface()) + " " +
           HumanTime(heard.heard_ms_ago()) + " ago, not linked  its " +
           Shown(heard.remote_interface()) + " " + Shown(heard.address()) + "\n";
  }
}

void RenderNode(const v1::NodeStatus& node, bool own, const Painter& paint, std::string& out) {
  out += "  " + paint.Bold(node.name()) + "  " + paint.State(node.state());
  if (!node.answered()) {
    out += "  (did not answer in time)\n";
    return;
  }
  out += "  mlxcommd " + Shown(node.version()) + ", pid " + std::to_string(node.pid()) + ", up " +
         HumanTime(node.uptime_ms()) + ", " + Plural(node.clients(), "client") + ", " +
         HumanBytes(static_cast<double>(node.memory_bytes())) + (own ? "  (this node)" : "") + "\n";
  for (const v1::UseStatus& use : node.users()) RenderUse(use, out);
  RenderDiscovery(node, out);
  RenderRdma(node, out);
  for (const v1::LinkStatus& link : node.links()) {
    out += "    to " + Shown(link.peer()) + "  " + paint.State(WordOf(link.state()));
    if (!link.detail().empty()) out += "  " + Shown(link.detail());
    out += "\n";
    if (link.large_lost()) {
      const std::string on =
          link.large_lost_on().empty() ? "" : " on " + Shown(link.large_lost_on());
      out += "      " + paint.Bad("small frames pass, large ones do not") + on +
             " (an MTU on the way; mlxcommctl doctor says what mends it)\n";
    }
    if (link.changed_frames() > 0) {
      out += "      " + paint.Bad("bytes were changed on the way") + ", " +
             Plural(link.changed_frames(), "time") + ", and sent again, last on " +
             Shown(link.changed_on()) + " (mlxcommctl doctor says what mends it)\n";
    }
    for (const v1::RailStatus& rail : link.rails()) RenderRail(rail, paint, out);
  }
}

template <typename Group>
void RenderRanks(const Group& group, const std::string& indent, std::string& out) {
  for (const v1::RankStatus& rank : group.ranks()) {
    out += indent + "rank " + std::to_string(rank.rank()) + "  " + Shown(rank.node()) + ", pid " +
           std::to_string(rank.pid());
    if (!rank.program().empty()) out += " (" + Shown(rank.program()) + ")";
    out += "  " + Plural(rank.operations_done(), "operation") + " done";
    if (!rank.operation().empty()) {
      out += ", in " + Shown(rank.operation()) + " for " + HumanTime(rank.operation_age_ms());
    }
    out += "\n";
  }
  // Ranks that wait for the same in the same operation share one line.
  std::vector<v1::WaitStatus> waits;
  for (const v1::WaitStatus& wait : group.waits()) {
    const auto same = std::find_if(waits.begin(), waits.end(), [&](const v1::WaitStatus& other) {
      return other.operation() == wait.operation() &&
             std::equal(other.awaited().begin(), other.awaited().end(), wait.awaited().begin(),
                        wait.awaited().end());
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

// Ranks that others have awaited for long enough to be worth a look; empty: none. Ranks that take
// part in the operation too only move its data.
std::string LongAwaited(const v1::JobStatus& job) {
  constexpr std::uint64_t kLongMs = 10'000;
  for (const v1::WaitStatus& wait : job.waits()) {
    if (wait.age_ms() < kLongMs) continue;
    for (const v1::RankStatus& rank : job.ranks()) {
      const bool awaited = std::find(wait.awaited().begin(), wait.awaited().end(), rank.rank()) !=
                           wait.awaited().end();
      if (!awaited || rank.operation() == wait.operation()) continue;
      return "job " + job.name() + " has waited for rank " + std::to_string(rank.rank()) + " for " +
             HumanTime(wait.age_ms()) + ": look at pid " + std::to_string(rank.pid()) + " on " +
             rank.node();
    }
  }
  return {};
}

// Once for each job: which ranks copy results, and the cost.
void RenderCopies(const v1::JobStatus& job, std::string& out) {
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
  // The mean over the ranks, because they copy at the same time.
  const double mean_ms = ns / 1e6 / static_cast<double>(ranks.size());
  out += "    results are copied out of shared memory on " + RanksOf(ranks) + ": " +
         Plural(results, "result") + ", " + HumanBytes(bytes) + ", " +
         HumanTime(static_cast<std::uint64_t>(mean_ms)) +
         " a rank so far (MLX does not take that memory there, or MLXCOMM_RESULTS=copy)\n";
}

void RenderJob(const v1::JobStatus& job, const Painter& paint, std::string& out) {
  out += "  " + paint.Bold(job.name()) + "  " + paint.State(job.state()) + "  " +
         std::to_string(job.ranks_size()) + " of " + Plural(job.size(), "rank");
  if (!job.user().empty()) out += ", user " + Shown(job.user());
  if (job.shrinks() > 0) {
    out += ", shrunk from " + std::to_string(job.size_at_start());
  }
  if (!job.detail().empty()) out += "  " + Shown(job.detail());
  out += "\n";
  RenderRanks(job, "    ", out);
  RenderCopies(job, out);
  for (const v1::GroupStatus& group : job.groups()) {
    out += "    group " + paint.Bold(Shown(group.name())) + "  " +
           paint.State(Shown(group.state())) + "  " + Plural(group.size(), "rank");
    if (!group.detail().empty()) out += "  " + Shown(group.detail());
    out += "\n";
    RenderRanks(group, "      ", out);
  }
  if (job.groups_left_out() > 0) {
    out += "    and " + Plural(job.groups_left_out(), "group") + " more\n";
  }
}

bool IsRouted(const v1::LinkStatus& link) {
  return std::any_of(link.rails().begin(), link.rails().end(), [](const v1::RailStatus& rail) {
    return rail.transport() == v1::Transport::route && rail.state() == v1::RailState::up;
  });
}

// For a link that is up all the same; empty: there is none.
std::string PulledCable(const v1::StatusReply& status) {
  for (const v1::NodeStatus& node : status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      for (const v1::RailStatus& rail : link.rails()) {
        if (rail.state() == v1::RailState::up || IsBeside(rail.transport())) continue;
        const std::string& at =
            rail.local_interface().empty() ? rail.remote_address() : rail.local_interface();
        return "link " + node.name() + " to " + link.peer() +
               (IsRouted(link) ? " goes through other nodes: " : " is slower than it could be: ") +
               at + " is down: is its cable in, at both ends?";
      }
    }
  }
  return {};
}

// A neighbour that is heard and not linked; a node that is alone but hears others.
std::string Unlinked(const v1::StatusReply& status) {
  for (const v1::NodeStatus& node : status.nodes()) {
    for (const v1::DiscoveredNeighbour& heard : node.discovery().neighbours()) {
      if (heard.state() != "heard" || IsLinked(node, heard.id())) continue;
      return "node " + node.name() + " hears " + heard.name() + " on " + heard.local_interface() +
             ", but is not linked to it: mlxcommctl doctor says more";
    }
  }
  if (status.nodes_size() == 1 && status.nodes(0).discovery().foreign() > 0) {
    return "node " + status.nodes(0).name() +
           " hears other clusters alone: has it the same key and cluster as the others? "
           "(mlxcommctl doctor)";
  }
  return {};
}

// A link whose cause is here goes before circuits.
std::string LinkThatIsDown(const v1::StatusReply& status) {
  std::string first;
  for (const v1::NodeStatus& node : status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      if (link.state() == v1::LinkState::up) continue;
      const bool consequence = GoesThroughOthers(link.reason());
      if (consequence && !first.empty()) continue;
      first = "link " + node.name() + " to " + link.peer() +
              (link.state() == v1::LinkState::grace ? " is down, and waited for"
                                                    : " is " + WordOf(link.state())) +
              ": is mlxcommd running there, and the cable in?";
      if (!consequence) return first;
    }
  }
  return first;
}

// Jobs whose ranks have not all come; empty: none. Most are in that state only for a moment.
std::string StillForming(const v1::StatusReply& status) {
  std::uint64_t forming = 0;
  std::string first;
  for (const v1::JobStatus& job : status.jobs()) {
    if (job.state() != "forming" || forming++ > 0) continue;
    first = job.name() + (job.detail().empty() ? " forms" : " " + job.detail());
  }
  if (forming == 0) return {};
  return Plural(forming, "job") + (forming == 1 ? " is" : " are") + " still forming: " + first;
}

std::string Health(const v1::StatusReply& status, const Painter& paint) {
  for (const v1::NodeStatus& node : status.nodes()) {
    // Behind a link that is down it cannot answer.
    if (!node.answered() && LinkThatIsDown(status).empty()) {
      return paint.Bad("node " + node.name() + " does not answer: look at its mlxcommd");
    }
  }
  if (const std::string down = LinkThatIsDown(status); !down.empty()) return paint.Bad(down);
  for (const v1::JobStatus& job : status.jobs()) {
    if (job.state() == "failed")
      return paint.Bad("job " + job.name() + " has failed: " + job.detail());
    if (const std::string awaited = LongAwaited(job); !awaited.empty()) return paint.Bad(awaited);
  }
  if (const std::string unlinked = Unlinked(status); !unlinked.empty()) return paint.Bad(unlinked);
  if (const std::string pulled = PulledCable(status); !pulled.empty()) return paint.Bad(pulled);
  const std::string forming = StillForming(status);
  return forming.empty() ? paint.Good("all is well") : paint.Bad(forming);
}

}  // namespace

std::string Shown(const std::string& text) { return MakePrintable(text); }

std::string HumanBytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, bytes < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", bytes,
                kUnits[unit]);
  return text;
}

std::string HumanTime(std::uint64_t milliseconds) {
  char text[48];
  const std::uint64_t seconds = milliseconds / 1000;
  if (milliseconds < 1000) {
    std::snprintf(text, sizeof text, "%u ms", static_cast<unsigned>(milliseconds));
  } else if (seconds < 60) {
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(milliseconds) / 1000);
  } else if (seconds < 3600) {
    std::snprintf(text, sizeof text, "%u min %u s", static_cast<unsigned>(seconds / 60),
                  static_cast<unsigned>(seconds % 60));
  } else {
    std::snprintf(text, sizeof text, "%llu h %u min",
                  static_cast<unsigned long long>(seconds / 3600),
                  static_cast<unsigned>(seconds / 60 % 60));
  }
  return text;
}

std::string RenderStatus(const v1::StatusReply& status, bool colours) {
  const Painter paint(colours);
  std::string out = "cluster " + paint.Bold(status.cluster()) + ", " +
                    Plural(static_cast<std::uint64_t>(status.nodes_size()), "node") + "\n";
  for (const v1::NodeStatus& node : status.nodes()) {
    RenderNode(node, node.name() == status.node(), paint, out);
  }
  const bool none = status.jobs_size() == 0 && status.jobs_of_others() == 0;
  out += none ? "no jobs\n" : "jobs\n";
  for (const v1::JobStatus& job : status.jobs()) RenderJob(job, paint, out);
  if (status.jobs_of_others() > 0) {
    out += "  " + Plural(status.jobs_of_others(), "job") + " of other users\n";
  }
  return out + "health: " + Health(status, paint) + "\n";
}

}  // namespace mlxcomm::ctl
