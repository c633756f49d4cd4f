#include "client/ctl/hosts/exported_hosts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "client/ctl/cli/json_text.h"
#include "client/ctl/hosts/host_list.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kListedMax = 3;

// "a to b, b to c, c to d and 4 more"
class Listed {
 public:
  void Add(const std::string& one) {
    if (count_++ < kListedMax) text_ += (text_.empty() ? "" : ", ") + one;
  }
  std::size_t count() const { return count_; }
  std::string text() const {
    if (count_ <= kListedMax) return text_;
    return text_ + " and " + std::to_string(count_ - kListedMax) + " more";
  }

 private:
  std::size_t count_ = 0;
  std::string text_;
};

class Exporter {
 public:
  Exporter(const Fabric& fabric, const ExportWishes& wishes, ExportedHosts& exported)
      : fabric_(fabric), wishes_(wishes), exported_(exported) {}

  Failure Export() {
    Failure failure = ChooseNodes();
    if (failure.ok()) failure = NameHosts();
    if (!failure.ok()) return failure;
    PutInOrder();
    exported_.neighbours_share_cables = IsClosedRing(Row(), cables_);
    failure = ChooseBackend();
    if (!failure.ok()) return failure;
    AddAddresses();
    for (const v1::NodeStatus* const node : chosen_) exported_.nodes.push_back(node->name());
    return {};
  }

 private:
  std::size_t count() const { return chosen_.size(); }
  std::size_t Next(std::size_t place) const { return (place + 1) % count(); }
  std::size_t Before(std::size_t place) const { return (place + count() - 1) % count(); }
  const std::string& NameOf(std::size_t place) const { return chosen_[place]->name(); }
  std::string PairText(std::size_t a, std::size_t b) const {
    return NameOf(a) + " to " + NameOf(b);
  }
  void Note(const std::string& text) { exported_.notes.push_back(MakePrintable(text)); }

  // Finds a node by id or name; a name that two nodes share is an error.
  Failure FindNode(const std::string& wanted, const v1::NodeStatus*& found) const {
    found = nullptr;
    for (const v1::NodeStatus& node : fabric_.status.nodes()) {
      if (node.id() == wanted && !wanted.empty()) found = &node;
    }
    if (found != nullptr) return {};
    for (const v1::NodeStatus& node : fabric_.status.nodes()) {
      if (node.name() != wanted) continue;
      if (found != nullptr) {
        return Invalid("two nodes are named " + MakePrintable(wanted) + ": use " + found->id() +
                       " or " + node.id() + " instead");
      }
      found = &node;
    }
    if (found != nullptr) return {};
    return Invalid("cluster " + MakePrintable(fabric_.status.cluster()) + " has no node " +
                   MakePrintable(wanted) + ": see mlxcommctl status");
  }

  Failure ChooseNodes() {
    Listed left_out;
    if (wishes_.nodes.empty()) {
      for (const v1::NodeStatus& node : fabric_.status.nodes()) {
        if (node.state() == "up") {
          chosen_.push_back(&node);
        } else {
          left_out.Add(node.name() + " (" + node.state() + ")");
        }
      }
    }
    for (const std::string& wanted : wishes_.nodes) {
      const v1::NodeStatus* node = nullptr;
      if (Failure failure = FindNode(wanted, node); !failure.ok()) return failure;
      if (node->state() != "up") {
        return Invalid("node " + MakePrintable(node->name()) + " is " +
                       MakePrintable(node->state()) +
                       ": fix it (see mlxcommctl status), or leave it out");
      }
      if (std::ranges::find(chosen_, node) != chosen_.end()) {
        return Invalid("node " + MakePrintable(node->name()) + " is listed twice");
      }
      chosen_.push_back(node);
    }
    if (left_out.count() > 0) Note("nodes that are not up are left out: " + left_out.text());
    if (chosen_.size() <= kHostsMax) return {};
    return Invalid("expected at most " + std::to_string(kHostsMax) + " nodes, got " +
                   std::to_string(chosen_.size()) + ": choose some with --nodes");
  }

  // Sorts by the daemons' ring, then searches a closed ring of cables.
  void PutInOrder() {
    if (!wishes_.keep_order) {
      std::map<std::string, int> places;
      for (int i = 0; i < fabric_.topology.ring_size(); ++i)
        places.emplace(fabric_.topology.ring(i), i);
      const auto key = [&](const v1::NodeStatus* node) {
        const auto found = places.find(node->id());
        const int place = found == places.end() ? static_cast<int>(places.size()) : found->second;
        return std::pair(place, node->name());
      };
      std::ranges::stable_sort(chosen_, {}, key);
    }
    cables_ = FindCables(fabric_, Ids());
    if (wishes_.keep_order) return;
    bool closed = false;
    const std::vector<std::size_t> order = RingOrder(count(), cables_, closed);
    if (order == Row()) return;
    std::vector<const v1::NodeStatus*> ordered;
    for (const std::size_t place : order) ordered.push_back(chosen_[place]);
    chosen_ = std::move(ordered);
    cables_ = FindCables(fabric_, Ids());
  }

  std::vector<std::string> Ids() const {
    std::vector<std::string> ids;
    for (const v1::NodeStatus* const node : chosen_) ids.push_back(node->id());
    return ids;
  }

  std::vector<std::size_t> Row() const {
    std::vector<std::size_t> row(count());
    for (std::size_t i = 0; i < count(); ++i) row[i] = i;
    return row;
  }

  // Node names are untrusted: "root@elsewhere" must not redirect ssh, and "localhost" means another machine
  // for each reader.
  Failure NameHosts() {
    std::map<const v1::NodeStatus*, std::string> given;
    for (const auto& [wanted, host] : wishes_.ssh_names) {
      const v1::NodeStatus* node = nullptr;
      Failure failure = FindNode(wanted, node);
      if (!failure.ok()) failure.message = "--ssh-name: " + failure.message;
      if (!failure.ok()) return failure;
      if (!IsHostName(host)) {
        return Invalid(
            "--ssh-name: expected NODE=HOST with HOST like mac-1 or user@10.0.0.1, got \"" +
            MakePrintable(host) + "\"");
      }
      given[node] = host;
    }
    std::set<std::string> taken;
    for (const v1::NodeStatus* const node : chosen_) {
      const auto found = given.find(node);
      const std::string& name = found == given.end() ? node->name() : found->second;
      const bool is_sound = IsHostName(name) && name.find('@') == std::string::npos &&
                            (count() == 1 || !IsThisMachine(name, ""));
      if (found == given.end() && !is_sound) {
        return Invalid("node \"" + MakePrintable(name) +
                       "\" is not a valid host name: set one with --ssh-name " + node->id() +
                       "=HOST, or leave it out (--nodes)");
      }
      if (!taken.insert(name).second) {
        return Invalid("two nodes have the host name \"" + MakePrintable(name) +
                       "\": set another one with --ssh-name " + node->id() + "=HOST");
      }
      ssh_[node] = name;
    }
    return {};
  }

  bool AreBeside(std::size_t a, std::size_t b) const { return Next(a) == b || Next(b) == a; }

  static std::size_t RdmaCables(const std::vector<FabricCable>& cables) {
    return static_cast<std::size_t>(
        std::ranges::count_if(cables, [](const FabricCable& cable) { return cable.has_rdma(); }));
  }

  // The smallest number of RDMA cables between two nodes; adds pairs without any to `without`.
  std::size_t LeastRdma(bool ring, Listed& without) const {
    std::size_t least = 0;
    for (std::size_t a = 0; a < count(); ++a) {
      for (std::size_t b = a + 1; b < count(); ++b) {
        if (ring && !AreBeside(a, b)) continue;
        const std::size_t here = RdmaCables(cables_.Between(a, b));
        least = least == 0 ? here : std::min(least, here);
        if (here == 0) without.Add(PairText(a, b));
      }
    }
    return without.count() == 0 ? least : 0;
  }

  // MLX requires the same number of devices for each pair.
  void AddDevices(bool ring, std::size_t devices) {
    for (std::size_t a = 0; a < count(); ++a) {
      std::vector<std::vector<std::string>>& row = exported_.file.hosts[a].rdma;
      row.assign(count(), {});
      for (std::size_t b = 0; b < count(); ++b) {
        if (a == b || (ring && !AreBeside(a, b))) continue;
        for (const FabricCable& cable : cables_.Between(a, b)) {
          if (cable.has_rdma() && row[b].size() < devices) row[b].push_back(cable.own.device);
        }
      }
    }
  }

  Failure ChooseBackend() {
    for (const v1::NodeStatus* const node : chosen_) {
      exported_.file.hosts.emplace_back().name = ssh_.at(node);
    }
    Listed mesh_lacks;
    Listed ring_lacks;
    const std::size_t mesh = LeastRdma(/*ring=*/false, mesh_lacks);
    const std::size_t ring = LeastRdma(/*ring=*/true, ring_lacks);
    std::string backend = wishes_.backend;
    if (backend.empty()) backend = mesh > 0 ? "jaccl" : ring > 0 ? "jaccl-ring" : "ring";
    exported_.file.backend = backend;
    if ((backend == "jaccl" && mesh == 0) || (backend == "jaccl-ring" && ring == 0)) {
      if (count() < 2) return Invalid("--backend " + backend + ": expected at least two nodes");
      return Invalid("--backend " + backend + ": no cable with an RDMA device at both ends from " +
                     MakePrintable((backend == "jaccl" ? mesh_lacks : ring_lacks).text()) +
                     ": see mlxcommctl doctor (MC306 to MC321), or use --backend ring");
    }
    if (mesh > 0 && backend != "jaccl-ring") {
      AddDevices(/*ring=*/false, mesh);
    } else if (backend == "jaccl-ring") {
      AddDevices(/*ring=*/true, ring);
    } else if (mesh_lacks.count() < count() * (count() - 1) / 2) {
      Note(
          "RDMA devices are left out, because JACCL needs them between all hosts, and there are "
          "none from " +
          mesh_lacks.text());
    }
    return {};
  }

  // An address of this node that is the end of cables from all others.
  std::optional<InterfaceAddress> SharedEnd(std::size_t place) const {
    std::map<std::string, std::pair<std::size_t, std::string>>
        reached;  // Number of other nodes, and the interface.
    for (std::size_t other = 0; other < count(); ++other) {
      std::set<std::string> counted;
      for (const FabricCable& cable : cables_.Between(place, other)) {
        if (!cable.has_addresses() || !counted.insert(cable.own.ipv4).second) continue;
        auto& [by, interface] = reached[cable.own.ipv4];
        ++by;
        interface = cable.own.interface;
      }
    }
    for (const auto& [address, found] : reached) {
      if (found.first + 1 == count()) return InterfaceAddress{found.second, address};
    }
    return std::nullopt;
  }

  // The address whose network contains most other nodes. Excludes ends of cables to one node, and addresses
  // that several nodes have, like Docker's bridges.
  std::optional<InterfaceAddress> NetworkAddress(std::size_t place) {
    if (seen_.empty()) CollectAddresses();
    const InterfaceAddress* best = nullptr;
    std::size_t best_near = 0;
    for (const InterfaceAddress& one : seen_[place]) {
      if (holders_[one.ipv4] > 1 || IsEndOfCable(place, one.interface)) continue;
      std::size_t near = 0;
      for (std::size_t other = 0; other < count(); ++other) {
        near += other != place &&
                std::ranges::any_of(seen_[other], [&](const InterfaceAddress& theirs) {
                  return AreInOneNetwork(one.ipv4, theirs.ipv4);
                });
      }
      if (best != nullptr && near <= best_near) continue;
      best = &one;
      best_near = near;
    }
    if (best == nullptr) return std::nullopt;
    return *best;
  }

  void CollectAddresses() {
    for (const v1::NodeStatus* const node : chosen_) {
      seen_.push_back(AddressesOf(fabric_, node->name()));
      std::set<std::string> own;
      for (const InterfaceAddress& one : seen_.back()) own.insert(one.ipv4);
      for (const std::string& one : own) ++holders_[one];
    }
  }

  bool IsEndOfCable(std::size_t place, const std::string& interface) const {
    for (std::size_t other = 0; other < count(); ++other) {
      for (const FabricCable& cable : cables_.Between(place, other)) {
        if (!cable.switched && cable.own.interface == interface) return true;
      }
    }
    return false;
  }

  // Returns the address that nodes without a cable to this one use.
  std::optional<InterfaceAddress> CommonAddress(std::size_t place) {
    const auto shared = SharedEnd(place);
    return shared ? shared : NetworkAddress(place);
  }

  void AddAddresses() {
    if (exported_.file.backend == "ring") return AddRingAddresses();
    if (!exported_.neighbours_share_cables) NoteGaps();
    Listed without;
    for (std::size_t place = 0; place < count(); ++place) {
      const auto found = CommonAddress(place);
      if (found) exported_.file.hosts[place].ips.push_back(found->ipv4);
      if (!found) without.Add(NameOf(place));
    }
    if (without.count() == 0) return;
    Note("found no IPv4 address by which all others reach " + without.text() +
         (exported_.file.hosts[0].ips.empty()
              ? ": add one to \"ips\" of the first host, to which mlx.launch connects all ranks"
              : ""));
  }

  void NoteGaps() {
    Listed gaps;
    for (std::size_t place = 0; place < count() && count() > 1; ++place) {
      if (!cables_.Joins(place, Next(place))) gaps.Add(PairText(place, Next(place)));
    }
    if (gaps.count() == 0) return;
    Note("neighbours in the list without a common cable: " + gaps.text() +
         (wishes_.keep_order ? " (another order, without --rank-order, may be better)"
                             : "; see mlxcommctl topology"));
  }

  // The ends of each host's cables to the previous one, which connects to them. MLX requires the same number
  // on each host.
  void AddRingAddresses() {
    NoteGaps();
    std::size_t connections = 0;
    std::vector<std::vector<std::string>> ends(count());
    for (std::size_t place = 0; place < count() && count() > 1; ++place) {
      for (const FabricCable& cable : cables_.Between(place, Before(place))) {
        if (cable.has_addresses()) ends[place].push_back(cable.own.ipv4);
      }
      if (ends[place].empty()) UseCommonAddress(place, ends[place]);
      const std::size_t here = std::max<std::size_t>(ends[place].size(), 1);
      connections = connections == 0 ? here : std::min(connections, here);
    }
    if (count() == 1) UseCommonAddress(0, ends[0]);
    for (std::size_t place = 0; place < count(); ++place) {
      if (connections > 0 && ends[place].size() > connections) ends[place].resize(connections);
      exported_.file.hosts[place].ips = ends[place];
    }
    if (no_address_.count() > 0) {
      Note("found no IPv4 address of " + no_address_.text() +
           ": mlx.launch's ring needs \"ips\" of every host (mlxcommctl launch does not)");
    }
  }

  void UseCommonAddress(std::size_t place, std::vector<std::string>& ends) {
    const auto found = CommonAddress(place);
    if (!found) return no_address_.Add(NameOf(place));
    ends.push_back(found->ipv4);
    if (count() < 2 || !cables_.Joins(place, Before(place))) return;
    Note("the cable from " + PairText(Before(place), place) +
         " does not have IPv4 addresses at both ends, which MLX's ring needs: using " +
         found->ipv4 + (found->interface.empty() ? "" : " (" + found->interface + ")") +
         " instead (mlx.distributed_config sets addresses; mlxcomm needs none)");
  }

  const Fabric& fabric_;
  const ExportWishes& wishes_;
  ExportedHosts& exported_;
  std::vector<const v1::NodeStatus*> chosen_;  // Ordered by rank.
  std::map<const v1::NodeStatus*, std::string> ssh_;
  Cables cables_;
  std::vector<std::vector<InterfaceAddress>> seen_;  // Indexed by node.
  std::map<std::string, std::size_t> holders_;       // Keyed by address: the number of nodes.
  Listed no_address_;
};

}  // namespace

Failure ExportHosts(const Fabric& fabric, const ExportWishes& wishes, ExportedHosts& exported) {
  exported = {};
  return Exporter(fabric, wishes, exported).Export();
}

std::string ExportedJson(const ExportedHosts& exported) {
  v1::ExportedHostList list;
  FillHosts(exported.file, list);
  list.mutable_nodes()->Assign(exported.nodes.begin(), exported.nodes.end());
  list.set_neighbours_share_cables(exported.neighbours_share_cables);
  list.mutable_notes()->Assign(exported.notes.begin(), exported.notes.end());
  return JsonOf(std::move(list));
}

}  // namespace mlxcomm::ctl
