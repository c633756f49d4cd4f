#include "client/ctl/launch/launch_hosts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/launch/rank_host.h"
#include "client/ctl/status/health.h"
#include "proto/status_words.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

// Other nodes choose their names: "root@elsewhere" must not lead to another host.
bool IsNodesHost(const std::string& name) {
  return IsHostName(name) && name.find('@') == std::string::npos;
}

Failure ChooseNodes(const LaunchOptions& options, Hostfile& file) {
  v1::StatusReply status;
  if (Failure failure = FetchStatus(options.socket_path, status); !failure.ok()) return failure;
  Hostfile wanted;
  if (options.nodes == "all") {
    for (const v1::NodeStatus& node : status.nodes())
      wanted.hosts.emplace_back().name = node.name();
    // Sorted, so that ranks get the same numbers whichever node launches.
    std::ranges::sort(wanted.hosts, {}, &HostEntry::name);
  } else if (Failure failure = ParseHostList("--nodes", options.nodes, wanted); !failure.ok()) {
    return failure;
  }
  for (const HostEntry& one : wanted.hosts) {
    const auto found = std::ranges::find(status.nodes(), one.name, &v1::NodeStatus::name);
    const std::string shown = MakePrintable(one.name);
    if (found == status.nodes().end()) {
      return Invalid("--nodes: cluster " + MakePrintable(status.cluster()) + " has no node " +
                     shown + ": mlxcommctl status lists them");
    }
    if (found->state() != "up") {
      return Invalid("--nodes: node " + shown + " is " + MakePrintable(found->state()) +
                     ": bring it back (mlxcommctl status), or name the nodes to use");
    }
    if (const std::string name = SharedName(one.name, found->id()); !name.empty()) {
      return Invalid(
          "--nodes: several nodes are called " + MakePrintable(name) +
          ", so ssh cannot distinguish them: give each its own name (mlxcommctl doctor shows how), "
          "or name hosts (mlxcommctl launch --hosts)");
    }
    if (!IsNodesHost(one.name)) {
      return Invalid(
          "--nodes: node \"" + shown +
          "\" has no name for ssh: set node_name in its configuration, or name hosts (mlxcommctl "
          "launch --hosts)");
    }
    HostEntry& entry = file.hosts.emplace_back();
    entry.name = one.name == status.node() ? "localhost" : one.name;
    entry.slots = one.slots;
  }
  return {};
}

}  // namespace

Failure ChooseHosts(const LaunchOptions& options, Hostfile& file) {
  if (!options.nodes.empty()) return ChooseNodes(options, file);
  if (!options.hostfile.empty()) {
    const Failure failure = ReadHostfile(options.hostfile, file);
    if (failure.ok() && !file.note.empty())
      std::fprintf(stderr, "mlxcommctl: %s: %s\n", options.hostfile.c_str(), file.note.c_str());
    return failure;
  }
  return ParseHostList("--hosts", options.hosts.empty() ? "localhost" : options.hosts, file);
}

Failure PlaceLaunch(const LaunchOptions& options, const Hostfile& file,
                    std::vector<PlacedRanks>& placement) {
  const auto ones = [](const HostEntry& host) { return host.slots == 1; };
  const bool spread = options.total > 0 && options.ranks == 0 && !file.hosts.empty() &&
                      std::ranges::all_of(file.hosts, ones);
  const auto hosts = static_cast<unsigned>(file.hosts.size());
  placement = PlaceRanks(file.hosts, spread ? (options.total + hosts - 1) / hosts : options.ranks,
                         OwnHostName());
  std::size_t size = 0;
  for (PlacedRanks& placed : placement) {
    if (options.total > 0) {
      std::erase_if(placed.ranks, [&options](unsigned rank) { return rank >= options.total; });
    }
    size += placed.ranks.size();
  }
  std::erase_if(placement, [](const PlacedRanks& placed) { return placed.ranks.empty(); });
  if (size == 0) return Invalid(options.hostfile + ": every host has slots=0");
  if (size > kRanksMax) {
    return Invalid("expected at most " + std::to_string(kRanksMax) + " ranks, got " +
                   std::to_string(size));
  }
  if (size < options.total) {
    return Invalid("--total: the hosts have room for " + std::to_string(size) + " ranks, not " +
                   std::to_string(options.total) + ": raise -n, or the file's slots");
  }
  return {};
}

std::string WhyNoRanksHere(const v1::StatusReply& status) {
  const v1::NodeStatus& own = OwnNode(status);
  // Without jobs it is about to exit, as a private daemon does after its last client.
  if (own.drain().jobs() == 0) return {};
  return "mlxcommd on " + own.name() + " is draining, " + DrainText(own.drain()) +
         ": it takes no new jobs until it is started again; nothing was started";
}

std::string OwnHostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

Failure ReadEnvironment(const std::string& place, const std::vector<std::string>& assignments,
                        BareName bare,
                        std::vector<std::pair<std::string, std::string>>& environment) {
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    const std::string name = assignment.substr(0, equals);
    const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0 ||
        !std::ranges::all_of(name, fits)) {
      return Invalid(place + ": expected NAME=VALUE, got \"" + MakePrintable(assignment) + "\"");
    }
    if (equals != std::string::npos) {
      environment.emplace_back(name, assignment.substr(equals + 1));
    } else if (bare == BareName::kEmpty) {
      environment.emplace_back(name, "");
    } else if (const char* const own = std::getenv(name.c_str()); own != nullptr) {
      environment.emplace_back(name, own);
    } else {
      return Invalid(place + ": " + name + " is not set here: give it a value (" + name +
                     "=VALUE)");
    }
  }
  return {};
}

}  // namespace mlxcomm::ctl
