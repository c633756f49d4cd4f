#include "daemon/discovery/discovery.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/fabric/authentication.h"
#include "daemon/rail/text_field.h"

namespace mlxcomm::discovery {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
// The pauses after the first hellos, then kHelloIntervalNs.
constexpr std::array<std::uint64_t, 5> kFirstPausesNs = {50 * kMs, 100 * kMs, 200 * kMs, 400 * kMs,
                                                         750 * kMs};
constexpr std::uint64_t kGatherNs =
    5 * kMs;  // Neighbours heard within it are repeated in one hello.
constexpr std::uint64_t kDistanceNs = 20 * kMs;  // Two hellos are at least this far apart.
constexpr std::size_t kToRepeatMax = 64;
constexpr std::uint64_t kNonceNs = 60'000 * kMs;

// The entry with which the sender reports that it has heard this node; nullptr: none.
const wire::HeardNode* EntryOf(const NodeId& node, const wire::DiscoveryHello& hello) {
  for (std::uint32_t i = 0; i < hello.heard_count; ++i) {
    if (hello.heard[i].node_id == node.bytes) return &hello.heard[i];
  }
  return nullptr;
}

}  // namespace

std::string AddressText(const wire::AddressBytes& address, const std::string& interface,
                        std::uint16_t port) {
  char text[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET6, address.data(), text, sizeof text);
  return absl::StrCat("[", text, "%", interface, "]:", port);
}

Discovery::Discovery(DiscoveryOptions options, DiscoveryPort& port)
    : options_(std::move(options)), port_(port) {
  SetKeys(options_.keys);
  options_.keys.clear();  // The seals have them.
}

void Discovery::SetKeys(const std::vector<DerivedKey>& keys) {
  seals_.clear();
  for (const DerivedKey& key : keys) seals_.emplace_back(key, options_.cluster);
}

void Discovery::OnInterfaceUp(const Interface& interface, std::uint64_t now_ns) {
  if (interfaces_.size() >= kInterfacesMax && !interfaces_.contains(interface.name)) return;
  Port& port = interfaces_[interface.name];
  port = Port();
  port.facts = interface;
  port.nonce = port.nonce_before = options_.random();
  port.nonce_made_ns = now_ns;
  port.salt = options_.random();
  SayHello(port, now_ns);
}

Discovery::Key Discovery::KeyOf(const Port& port, const wire::DiscoveryHello& hello) {
  return {port.facts.name, NodeId{hello.node_id}, std::string(rail::TextOf(hello.interface_name))};
}

// Strangers that send from one address use up one ration. Strangers that invent addresses use up
// all rations, but a neighbour still has its own.
bool Discovery::MayCheck(Port& port, Neighbour* known, const wire::DiscoveryHello& claimed,
                         std::uint64_t now_ns) const {
  std::array<std::uint64_t, 2> halves;
  std::memcpy(halves.data(), claimed.address.data(), sizeof halves);
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  const std::uint64_t mixed = ((halves[0] ^ port.salt) * kOdd ^ halves[1]) * kOdd;
  platform::TokenBucket& ration = port.rations[(mixed ^ mixed >> 32) * kOdd >> 56];
  static_assert(kRationsMax == 256);
  return ration.TakeIfAny(1, now_ns) || (known != nullptr && known->ration.TakeIfAny(1, now_ns));
}

void Discovery::OnDatagram(const std::string& interface, const wire::AddressBytes& from,
                           std::span<const std::uint8_t> datagram, std::uint64_t now_ns) {
  const auto found = interfaces_.find(interface);
  if (found == interfaces_.end()) return;
  counters_.set_hellos_received(counters_.hellos_received() + 1);
  HelloSeal::Look look = HelloSeal::Look::kMalformed;
  const auto seal = std::ranges::find_if(seals_, [&](const HelloSeal& one) {
    look = one.LookAt(datagram);
    return look == HelloSeal::Look::kOurs;
  });
  if (seal == seals_.end()) {
    if (look == HelloSeal::Look::kMalformed) {
      return counters_.set_malformed(counters_.malformed() + 1);
    }
    counters_.set_foreign(counters_.foreign() + 1);
    found->second.foreign_ns = now_ns;
    return;
  }
  wire::DiscoveryHello claimed;
  std::memcpy(&claimed, datagram.data(), sizeof claimed);
  const auto at = neighbours_.find(KeyOf(found->second, claimed));
  Neighbour* const known = at == neighbours_.end() ? nullptr : &at->second;
  // A hello that arrives from a different address than it contains is a recording.
  if (claimed.address != from || (known != nullptr && IsRepeated(*known, claimed))) {
    counters_.set_replayed(counters_.replayed() + 1);
    return;
  }
  if (!MayCheck(found->second, known, claimed, now_ns)) {
    counters_.set_over_limit(counters_.over_limit() + 1);
    return;
  }
  const std::optional<wire::DiscoveryHello> hello = seal->Open(datagram);
  if (!hello.has_value()) {
    counters_.set_forged(counters_.forged() + 1);
    return;
  }
  if (hello->node_id == options_.self.id.bytes) return OnOwnHello(found->second, *hello, now_ns);
  OnHello(found->second, *hello, now_ns);
}

void Discovery::OnOwnHello(Port& port, const wire::DiscoveryHello& hello, std::uint64_t now_ns) {
  if (hello.incarnation == options_.self.incarnation) {
    if (hello.address == port.facts.address) return;  // The system's own copy.
    counters_.set_looped(counters_.looped() + 1);
    port.fault_ns = now_ns;
    port.fault = {
        v1::DiscoveryReason::own_hellos,
        absl::StrCat("it hears this node's own hellos: it is on one cable or switch with ",
                     std::string(rail::TextOf(hello.interface_name)))};
    return;
  }
  const wire::HeardNode* const entry = EntryOf(options_.self.id, hello);
  const bool is_alive = entry != nullptr && entry->nonce == port.nonce;
  Repeat(port, hello, /*asks_back=*/true, now_ns);
  if (is_alive) {
    port.fault_ns = now_ns;
    port.fault = {v1::DiscoveryReason::same_id,
                  absl::StrCat("another machine has this node's id: on ",
                               std::string(rail::TextOf(hello.node_name)),
                               ", end mlxcommd, remove node-id in its state_directory, start it")};
  } else {
    counters_.set_replayed(counters_.replayed() + 1);
  }
}

// True if it was heard before, a later one was, or the neighbour sent it before a restart.
bool Discovery::IsRepeated(const Neighbour& neighbour, const wire::DiscoveryHello& hello) {
  if (hello.incarnation != neighbour.incarnation)
    return std::ranges::count(neighbour.ended_incarnations, hello.incarnation) != 0;
  return hello.sequence <= neighbour.sequence;
}

// Forgets the neighbour that has been silent the longest, if it is lost.
bool Discovery::MakeRoom(std::uint64_t now_ns) {
  if (neighbours_.size() < kNeighboursMax) return true;
  const auto oldest = std::ranges::min_element(
      neighbours_, {}, [](const auto& known) { return known.second.heard_ns; });
  if (!oldest->second.IsLost(now_ns)) return false;
  SetDialed(oldest->second, "");
  neighbours_.erase(oldest);
  return true;
}

void Discovery::OnHello(Port& port, const wire::DiscoveryHello& hello, std::uint64_t now_ns) {
  const Key key = KeyOf(port, hello);
  const auto known = neighbours_.find(key);
  const wire::HeardNode* const entry = EntryOf(options_.self.id, hello);
  const bool has_heard_us =
      entry != nullptr && (entry->nonce == port.nonce || entry->nonce == port.nonce_before);
  if (known == neighbours_.end() || known->second.incarnation != hello.incarnation) {
    if (entry != nullptr && !has_heard_us) counters_.set_replayed(counters_.replayed() + 1);
    if (!has_heard_us) return Repeat(port, hello, /*asks_back=*/true, now_ns);
    if (known == neighbours_.end() && !MakeRoom(now_ns)) {
      counters_.set_over_limit(counters_.over_limit() + 1);
      return;
    }
  }
  Neighbour& neighbour = neighbours_[key];
  const bool is_new = neighbour.incarnation != hello.incarnation;
  if (is_new) {
    auto& ended = neighbour.ended_incarnations;
    std::rotate(ended.begin(), ended.end() - 1, ended.end());
    ended.front() = std::exchange(neighbour.incarnation, hello.incarnation);
  }
  neighbour.sequence = hello.sequence;
  const bool changed = neighbour.address != hello.address || neighbour.port != hello.port ||
                       neighbour.IsLost(now_ns);
  neighbour.id = std::get<1>(key);
  neighbour.name = std::string(rail::TextOf(hello.node_name));
  neighbour.local_interface = port.facts.name;
  neighbour.remote_interface = std::get<2>(key);
  neighbour.address = hello.address;
  neighbour.port = hello.port;
  neighbour.heard_ns = now_ns;
  const bool asks_back =
      entry != nullptr && has_heard_us && (entry->flags & wire::kHeardAsksBack) != 0;
  // With a new nonce the interface has just come up, and should not wait for our next hello.
  const bool is_back = std::exchange(neighbour.nonce, hello.nonce) != hello.nonce;
  if (asks_back || (is_back && !is_new)) Repeat(port, hello, /*asks_back=*/false, now_ns);
  if (changed) Plan(now_ns);
}

void Discovery::Repeat(Port& port, const wire::DiscoveryHello& hello, bool asks_back,
                       std::uint64_t now_ns) {
  const wire::HeardNode heard{hello.node_id, hello.nonce, asks_back ? wire::kHeardAsksBack : 0, 0};
  const auto same = std::ranges::find_if(
      port.to_repeat, [&](const auto& one) { return one.node_id == hello.node_id; });
  if (same != port.to_repeat.end()) {
    *same = heard;
  } else if (port.to_repeat.size() < kToRepeatMax) {
    port.to_repeat.push_back(heard);
  } else {
    counters_.set_over_limit(counters_.over_limit() + 1);  // It will send another hello.
  }
  port.next_hello_ns =
      std::min(port.next_hello_ns, std::max(now_ns + kGatherNs, port.last_hello_ns + kDistanceNs));
}

void Discovery::SayHello(Port& port, std::uint64_t now_ns) {
  if (now_ns - port.nonce_made_ns >= kNonceNs) {
    port.nonce_before = std::exchange(port.nonce, options_.random());
    port.salt = options_.random();
    port.nonce_made_ns = now_ns;
  }
  wire::DiscoveryHello hello{};
  hello.heard_count = static_cast<std::uint32_t>(
      std::min<std::size_t>(port.to_repeat.size(), wire::kHeardNodesMax));
  const auto end = port.to_repeat.begin() + hello.heard_count;
  std::copy(port.to_repeat.begin(), end, hello.heard);
  port.to_repeat.erase(port.to_repeat.begin(), end);
  hello.node_id = options_.self.id.bytes;
  hello.incarnation = options_.self.incarnation;
  hello.nonce = port.nonce;
  hello.address = port.facts.address;
  hello.port = port.facts.port;
  rail::PutText(options_.self.name, hello.node_name);
  rail::PutText(port.facts.name, hello.interface_name);
  for (const HelloSeal& seal : seals_) {
    hello.sequence = ++sequence_;
    seal.Seal(hello);
    counters_.set_hellos_sent(counters_.hellos_sent() + 1);
    port_.SendHello(port.facts.name, hello);
  }
  port.last_hello_ns = now_ns;
  if (!port.to_repeat.empty()) {
    port.next_hello_ns = now_ns + kDistanceNs;
  } else if (port.hellos_said < kFirstPausesNs.size()) {
    port.next_hello_ns = now_ns + kFirstPausesNs[port.hellos_said++];
  } else {
    // Random, so that the nodes on a switch do not all send at once.
    port.next_hello_ns = now_ns + kHelloIntervalNs - options_.random() % (kHelloIntervalNs / 8);
  }
}

void Discovery::OnTime(std::uint64_t now_ns) {
  for (auto& [name, port] : interfaces_) {
    if (port.next_hello_ns <= now_ns) SayHello(port, now_ns);
  }
  if (next_look_ns_ > now_ns) return;
  for (auto at = neighbours_.begin(); at != neighbours_.end();) {
    const bool forgotten = now_ns - at->second.heard_ns >= kForgetNs;
    if (forgotten) SetDialed(at->second, "");
    at = forgotten ? neighbours_.erase(at) : std::next(at);
  }
  Plan(now_ns);
}

std::uint64_t Discovery::deadline_ns() const {
  std::uint64_t next = next_look_ns_;
  for (const auto& [name, port] : interfaces_) next = std::min(next, port.next_hello_ns);
  return next;
}

void Discovery::SetDialed(Neighbour& neighbour, const std::string& address) {
  if (neighbour.dialed == address) return;
  if (!neighbour.dialed.empty()) port_.StopDialing(neighbour.dialed);
  neighbour.dialed = address;
  if (!address.empty()) port_.Dial(address);
}

// Chooses which of the neighbours heard recently to dial; those that are dialed already come first.
void Discovery::Plan(std::uint64_t now_ns) {
  std::set<std::pair<NodeId, std::string>> local_taken;
  std::set<std::pair<NodeId, std::string>> remote_taken;
  const auto is_wanted = [&](const Neighbour& one) {
    return options_.self.id < one.id && now_ns - one.heard_ns < kDialNs &&
           !local_taken.contains({one.id, one.local_interface}) &&
           !remote_taken.contains({one.id, one.remote_interface});
  };
  for (const bool dialed : {true, false}) {
    for (auto& [key, one] : neighbours_) {
      if (one.dialed.empty() == dialed) continue;
      const bool wanted = is_wanted(one);
      if (wanted) {
        local_taken.insert({one.id, one.local_interface});
        remote_taken.insert({one.id, one.remote_interface});
      }
      SetDialed(one, wanted ? AddressText(one.address, one.local_interface, one.port) : "");
    }
  }
  next_look_ns_ = kNever;
  for (const auto& [key, one] : neighbours_) {
    for (const std::uint64_t after : {kLostNs, kDialNs, kForgetNs}) {
      const std::uint64_t due = one.heard_ns + after;
      if (due > now_ns) next_look_ns_ = std::min(next_look_ns_, due);
    }
  }
}

std::vector<const Discovery::Neighbour*> Discovery::Neighbours() const {
  std::vector<const Neighbour*> all;
  for (const auto& [key, neighbour] : neighbours_) all.push_back(&neighbour);
  return all;
}

bool Discovery::Hears(const NodeId& id, std::uint64_t now_ns) const {
  return std::ranges::any_of(neighbours_, [&](const auto& entry) {
    return entry.second.id == id && !entry.second.IsLost(now_ns);
  });
}

std::uint64_t Discovery::ForeignNs(const std::string& interface) const {
  const auto found = interfaces_.find(interface);
  return found == interfaces_.end() ? 0 : found->second.foreign_ns;
}

InterfaceFault Discovery::FaultOf(const std::string& interface, std::uint64_t now_ns) const {
  const auto found = interfaces_.find(interface);
  if (found == interfaces_.end()) return {};
  const Port& port = found->second;
  return now_ns < port.fault_ns + kLostNs ? port.fault : InterfaceFault{};
}

}  // namespace mlxcomm::discovery
