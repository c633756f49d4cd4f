// Hellos of discovery: datagrams that any machine on a cable or switch can send.
//
// Hostile: every datagram, from strangers, from recordings, and from nodes with the key and a bug.
// Read by: discovery::Discovery::OnDatagram (daemon/discovery/discovery.h), with HelloSeal
// (daemon/discovery/sealed_hello.h). Most hellos here are sealed with the right key, so that the
// seal does not stop the fuzzer; others are sealed with a wrong one, for another cluster, changed
// after they were sealed, or not hellos at all.
//
// Must hold:
//   - a datagram that is not sealed by this cluster's key changes nothing but one counter;
//   - a node becomes known, or known with a new incarnation, only through a hello that repeats a
//     nonce that this node has sent on that interface; the same hello changes nothing the second
//     time;
//   - known nodes are within bounds: names are plain text, addresses link-local and with a port,
//     none is this node itself, and there are at most kNeighboursMax;
//   - each address is dialed once, by the node with the smaller id, and given up only if it was
//     dialed;
//   - own hellos are sealed and within their bounds, keep their distance on each interface in every
//     case, and after OnTime there is always some time left until the next.
//
// Script: steps of one byte and their arguments.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "daemon/discovery/discovery.h"
#include "daemon/fabric/authentication.h"
#include "daemon/rail/text_field.h"
#include "proto/types/plain_text.h"
#include "tests/fuzz/fuzz.h"

namespace mlxcomm::discovery {
namespace {

using fuzz::Input;

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kDistanceNs = 20 * kMs;
constexpr std::uint64_t kOwnIncarnation = 77;
constexpr char kCluster[] = "lab";
constexpr std::array<const char*, 3> kInterfaces = {"en0", "en1", "thunderbolt-bridge"};

DerivedKey KeyOf(std::uint8_t number) {
  DerivedKey key;
  key.fill(number);
  return key;
}

// For keys 1 to 3, this cluster and another: making a seal takes longer than everything else.
const HelloSeal& SealOf(std::uint8_t key, bool other_cluster) {
  static const std::vector<HelloSeal> seals = [] {
    std::vector<HelloSeal> made;
    for (const char* const cluster : {kCluster, "other"}) {
      for (std::uint8_t number = 1; number <= 3; ++number)
        made.emplace_back(KeyOf(number), cluster);
    }
    return made;
  }();
  return seals[(other_cluster ? 3u : 0u) + key - 1];
}

NodeId NodeOf(std::uint8_t number) {
  NodeId id;
  id.bytes[0] = number;
  return id;
}
constexpr std::uint8_t kSelf = 4;  // Some ids are smaller.

wire::AddressBytes AddressOf(std::uint8_t node, std::uint8_t interface) {
  wire::AddressBytes address{};
  address[0] = 0xfe;
  address[1] = 0x80;
  address[14] = node;
  address[15] = interface;
  return address;
}

// Distinct numbers, the same in each run.
std::uint64_t next_random = 1;
std::uint64_t CountedNumber() { return next_random++ << 20 | 0x5a5a5; }

// Everything that may matter about a neighbour.
using Facts = std::tuple<NodeId, std::string, std::string, std::string, wire::AddressBytes,
                         std::uint16_t, std::uint64_t, std::uint64_t, std::uint64_t, std::string>;
Facts FactsOf(const Discovery::Neighbour& one) {
  return {one.id,   one.local_interface, one.remote_interface, one.name,  one.address,
          one.port, one.incarnation,     one.heard_ns,         one.nonce, one.dialed};
}
using Place = std::tuple<std::string, NodeId, std::string>;

class Node final : DiscoveryPort {
 public:
  Node() {
    next_random = 1;
    for (std::size_t i = 0; i < 2; ++i) Up(i);
  }

  void Step(Input& input) {
    switch (input.TakeUpTo(9)) {
      case 0: {  // Any bytes; they cannot be sealed by chance.
        const std::size_t interface = input.TakeUpTo(2);
        const std::size_t bytes = input.Take<std::uint16_t>() % 800;
        std::vector<std::uint8_t> datagram(bytes);
        input.TakeInto(datagram.data(), bytes);
        return GiveForeign(interface, datagram);
      }
      case 1: return Wait(input.Take<std::uint16_t>() * kMs);
      case 2: return Wait(input.TakeByte() * (kMs / 4));
      case 3: {
        const std::size_t interface = input.TakeUpTo(2);
        if ((input.TakeByte() & 3) != 0) return Up(interface);
        is_up_[interface] = false;
        return discovery_.OnInterfaceDown(kInterfaces[interface]);
      }
      case 4: {  // There are two during a key rotation, then only the new one.
        const std::uint8_t which = input.TakeUpTo(2);
        keys_ = which == 0   ? std::vector<std::uint8_t>{1}
                : which == 1 ? std::vector<std::uint8_t>{2, 1}
                             : std::vector<std::uint8_t>{2};
        std::vector<DerivedKey> keys;
        for (const std::uint8_t key : keys_) keys.push_back(KeyOf(key));
        return discovery_.SetKeys(keys);
      }
      case 5: return Replay(input.TakeByte());
      default: GiveHello(input);
    }
  }
  void End() {
    for (const auto& [address, times] : dialed_) MLXCOMM_MUST(times >= 0, "no address is owed");
    std::map<std::string, int> wanted;
    for (const Discovery::Neighbour* one : discovery_.Neighbours()) {
      if (!one->dialed.empty()) ++wanted[one->dialed];
    }
    std::erase_if(dialed_, [](const auto& entry) { return entry.second == 0; });
    MLXCOMM_MUST(wanted == dialed_, "what was told to be dialed is what is known to be");
  }

 private:
  struct Given {
    std::size_t interface;
    wire::AddressBytes from;
    std::vector<std::uint8_t> bytes;
  };

  // DiscoveryPort
  void SendHello(const std::string& interface, const wire::DiscoveryHello& hello) override {
    MLXCOMM_MUST(hello.heard_count <= wire::kHeardNodesMax, "a hello repeats as many as it may");
    const HelloSeal& seal = SealOf(keys_[sent_now_ % keys_.size()], /*other_cluster=*/false);
    const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(&hello),
                                              sizeof hello);
    MLXCOMM_MUST(seal.LookAt(bytes) == HelloSeal::Look::kOurs && seal.Open(bytes).has_value(),
                 "an own hello is sealed with each key in turn, and within its bounds");
    MLXCOMM_MUST(hello.sequence > said_sequence_, "hellos are counted");
    said_sequence_ = hello.sequence;
    said_nonces_[interface].insert(hello.nonce);
    last_nonce_[interface] = hello.nonce;
    if (sent_now_++ % keys_.size() != 0) return;  // The same with the other key, at the same time.
    const auto last = said_ns_.find(interface);
    MLXCOMM_MUST(last == said_ns_.end() || now_ - last->second >= kDistanceNs,
                 "own hellos keep their distance");
    said_ns_[interface] = now_;
  }
  void Dial(const std::string& address) override {
    MLXCOMM_MUST(++dialed_[address] >= 1, "an address is dialed");
  }
  void StopDialing(const std::string& address) override {
    MLXCOMM_MUST(--dialed_[address] >= 0, "only what is dialed is given up: " + address);
  }

  void Up(std::size_t interface) {
    said_ns_.erase(kInterfaces[interface]);  // It starts again.
    said_nonces_[kInterfaces[interface]].clear();
    is_up_[interface] = true;
    sent_now_ = 0;
    discovery_.OnInterfaceUp(
        {kInterfaces[interface], AddressOf(kSelf, static_cast<std::uint8_t>(interface)),
         static_cast<std::uint16_t>(7470 + interface)},
        now_);
  }

  void Wait(std::uint64_t ns) {
    const std::uint64_t until = now_ + ns;
    for (int turns = 0; discovery_.deadline_ns() <= until; ++turns) {
      MLXCOMM_MUST(discovery_.deadline_ns() > now_ || turns == 0, "time goes on");
      // A busy node calls late, not at each deadline.
      now_ = turns < 40 ? std::max(now_, discovery_.deadline_ns()) : until;
      sent_now_ = 0;
      discovery_.OnTime(now_);
      MLXCOMM_MUST(discovery_.deadline_ns() > now_, "after OnTime there is time until the next");
    }
    now_ = until;
    CheckKnown();
  }

  std::map<Place, Facts> Known() const {
    std::map<Place, Facts> known;
    for (const Discovery::Neighbour* one : discovery_.Neighbours()) {
      known.emplace(Place(one->local_interface, one->id, one->remote_interface), FactsOf(*one));
    }
    return known;
  }
  void CheckKnown() const {
    const auto known = discovery_.Neighbours();
    MLXCOMM_MUST(known.size() <= Discovery::kNeighboursMax, "there is a bound to neighbours");
    for (const Discovery::Neighbour* one : known) {
      MLXCOMM_MUST(one->id != NodeOf(kSelf), "nobody is this node itself");
      MLXCOMM_MUST(!one->name.empty() && IsPlainText(one->name) && !one->remote_interface.empty() &&
                       IsPlainText(one->remote_interface),
                   "names are plain text");
      MLXCOMM_MUST(IsLinkLocal(one->address) && one->port != 0, "there is a port of a neighbour");
      MLXCOMM_MUST(one->dialed.empty() || NodeOf(kSelf) < one->id, "the smaller id dials");
      MLXCOMM_MUST(discovery_.Knows(one->id, one->local_interface, one->remote_interface),
                   "whom it tells of it knows");
    }
    for (const char* const interface : kInterfaces) {
      MLXCOMM_MUST(IsPlainText(discovery_.FaultOf(interface, now_).text),
                   "what is told is plain text");
    }
  }

  void Give(const Given& given) {
    sent_now_ = 0;
    discovery_.OnDatagram(kInterfaces[given.interface], given.from, given.bytes, now_);
  }
  // Its only effect is to increment a counter.
  void GiveForeign(std::size_t interface, const std::vector<std::uint8_t>& datagram) {
    const auto known = Known();
    const v1::DiscoveryStatus before = discovery_.counters();
    const std::uint64_t deadline = discovery_.deadline_ns();
    Give({interface, AddressOf(1, 0), datagram});
    const v1::DiscoveryStatus& after = discovery_.counters();
    MLXCOMM_MUST(Known() == known && discovery_.deadline_ns() == deadline,
                 "what is not sealed changes nothing");
    // Before the proof, a hello's own address and a known sender's sequence number are checked.
    wire::DiscoveryHello claimed{};
    const bool is_hello = datagram.size() == sizeof claimed;
    if (is_hello) std::memcpy(&claimed, datagram.data(), sizeof claimed);
    const bool may_repeat = is_hello && (claimed.address != AddressOf(1, 0) ||
                                         std::ranges::any_of(known, [&](const auto& one) {
                                           return std::get<1>(one.first) == NodeId{claimed.node_id};
                                         }));
    MLXCOMM_MUST(may_repeat || after.replayed() == before.replayed(),
                 "only a hello that repeats an address or a number is replayed");
    const auto refused = [](const v1::DiscoveryStatus& counts) {
      return counts.foreign() + counts.malformed() + counts.forged() + counts.replayed() +
             counts.over_limit();
    };
    const std::uint64_t received = after.hellos_received() - before.hellos_received();
    MLXCOMM_MUST(received == (is_up_[interface] ? 1u : 0u) &&
                     refused(after) - refused(before) == received &&
                     after.hellos_sent() == before.hellos_sent(),
                 "a datagram without a valid proof is counted, once");
  }

  void GiveHello(Input& input) {
    const std::size_t interface = input.TakeUpTo(2);
    const std::uint8_t seal = input.TakeByte();
    const std::uint8_t flags = input.TakeByte();
    const std::uint8_t number = input.TakeByte();
    wire::DiscoveryHello hello{};
    hello.node_id = NodeOf(number).bytes;
    hello.incarnation = (flags & 1) != 0 ? kOwnIncarnation : input.TakeUpTo(7);
    hello.sequence = input.TakeByte();
    if ((flags & 2) != 0) hello.sequence = input.Take<std::uint64_t>();
    hello.nonce = 1u + input.TakeUpTo(3);
    hello.port = 7470;
    const std::uint8_t other = input.TakeUpTo(3);
    hello.address = AddressOf(number, other);
    rail::PutText("node", hello.node_name);
    rail::PutText(other < 3 ? kInterfaces[other] : "en9", hello.interface_name);
    // The nodes that it has heard: this node with its current nonce, with another one, or another
    // node.
    hello.heard_count = (flags >> 2) & 3;
    const std::string& said_on = kInterfaces[interface];
    for (std::uint32_t i = 0; i < hello.heard_count; ++i) {
      const std::uint8_t how = input.TakeByte();
      const std::uint64_t nonce = (how & 1) != 0 ? last_nonce_[said_on] : input.TakeUpTo(3);
      const auto flag = static_cast<std::uint32_t>(how >> 6);
      hello.heard[i] = {NodeOf((how & 2) != 0 ? how >> 2 : kSelf).bytes, nonce, flag, 0};
    }
    // A node that holds the key and has a bug: any byte may be wrong.
    for (std::uint8_t changes = flags >> 6; changes > 0; --changes) {
      const std::size_t at = input.Take<std::uint16_t>() % offsetof(wire::DiscoveryHello, mac);
      reinterpret_cast<std::uint8_t*>(&hello)[at] ^= input.TakeByte();
    }
    const std::uint8_t key = (seal & 3) == 3 ? 3 : static_cast<std::uint8_t>(1 + seal % 2);
    SealOf(key, (seal & 12) == 12).Seal(hello);
    Given given{interface, hello.address, {}};
    const auto* const first = reinterpret_cast<const std::uint8_t*>(&hello);
    given.bytes.assign(first, first + sizeof hello);
    const bool changed = (seal & 48) == 48;
    if (changed) {
      given.bytes[input.Take<std::uint16_t>() % sizeof hello] ^=
          static_cast<std::uint8_t>(1u + input.TakeUpTo(254));
    }
    const bool is_ours =
        std::count(keys_.begin(), keys_.end(), key) != 0 && (seal & 12) != 12 && !changed;
    if (!is_ours) return GiveForeign(interface, given.bytes);
    if ((flags & 16) != 0) given.from[15] ^= 0x40;  // Played back by another sender.
    GiveSealed(given, hello);
    if ((flags & 32) != 0) given_.push_back(given);
  }

  void GiveSealed(const Given& given, const wire::DiscoveryHello& hello) {
    const auto before = Known();
    Give(given);
    CheckKnown();
    const auto after = Known();
    const std::string interface = kInterfaces[given.interface];
    const NodeId node{hello.node_id};
    const Place place(interface, node, std::string(rail::TextOf(hello.interface_name)));
    for (const auto& [key, facts] : after) {
      const auto old = before.find(key);
      const bool same_life = old != before.end() && std::get<6>(old->second) == std::get<6>(facts);
      if (same_life && old->second == facts) continue;
      // Which cable is used depends on other hellos; everything else only on this one.
      if (key != place) {
        MLXCOMM_MUST(same_life && std::get<7>(old->second) == std::get<7>(facts),
                     "a hello tells of its sender alone");
        continue;
      }
      MLXCOMM_MUST(hello.address == given.from, "what comes from elsewhere is not believed");
      MLXCOMM_MUST(std::get<7>(facts) == now_, "who is taken was heard now");
      if (same_life) continue;
      MLXCOMM_MUST(RepeatsNonce(hello, interface), "a node becomes known by this node's nonce");
    }
    // Again, at once: it must have no effect.
    const std::uint64_t deadline = discovery_.deadline_ns();
    Give(given);
    MLXCOMM_MUST(Known() == after, "a hello that comes once more changes nothing");
    MLXCOMM_MUST(discovery_.deadline_ns() <= deadline, "nor does it put off this node's hellos");
  }
  bool RepeatsNonce(const wire::DiscoveryHello& hello, const std::string& interface) {
    for (std::uint32_t i = 0; i < std::min(hello.heard_count, wire::kHeardNodesMax); ++i) {
      if (hello.heard[i].node_id == NodeOf(kSelf).bytes &&
          said_nonces_[interface].contains(hello.heard[i].nonce)) {
        return true;
      }
    }
    return false;
  }
  // An old recording. It lists nodes that were heard then, which must not count as heard now.
  void Replay(std::uint8_t which) {
    if (given_.empty()) return;
    const Given& given = given_[which % given_.size()];
    wire::DiscoveryHello hello;
    std::memcpy(&hello, given.bytes.data(), sizeof hello);
    GiveSealed(given, hello);
  }

  Discovery discovery_{
      {{NodeOf(kSelf), "self", "1", kOwnIncarnation}, kCluster, {KeyOf(1)}, &CountedNumber}, *this};
  std::uint64_t now_ = 1'000 * kMs;
  std::vector<std::uint8_t> keys_ = {1};
  std::size_t sent_now_ = 0;
  std::uint64_t said_sequence_ = 0;
  bool is_up_[kInterfaces.size()] = {};
  std::map<std::string, std::uint64_t> said_ns_;
  std::map<std::string, std::uint64_t> last_nonce_;
  std::map<std::string, std::set<std::uint64_t>> said_nonces_;  // Since the interface came up.
  std::map<std::string, int> dialed_;
  std::vector<Given> given_;
};

}  // namespace
}  // namespace mlxcomm::discovery

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  mlxcomm::fuzz::Input input(data, bytes);
  mlxcomm::discovery::Node node;
  while (!input.empty()) node.Step(input);
  node.End();
  return 0;
}
