// Several daemons' collective cores in one thread, connected by queues with a seeded schedule:
// tests run whole operations without sockets.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/collective/collectives.h"
#include "daemon/reduce/kernels.h"
#include "tests/unit/daemon/collective/life_order.h"

namespace mlxcomm::collective {

class SimulatedCluster {
 public:
  struct Completion {
    SessionId session;
    std::uint64_t ticket;
    Failure failure;
    bool group_failed;
  };

  SimulatedCluster(int nodes, int ranks_per_node, std::uint32_t seed)
      : SimulatedCluster(InOrder(nodes, ranks_per_node), seed) {}
  // By rank: its node, numbered from 0 without gaps.
  SimulatedCluster(const std::vector<int>& node_of_rank, std::uint32_t seed) : random_(seed) {
    const int nodes = *std::max_element(node_of_rank.begin(), node_of_rank.end()) + 1;
    const IsStoppedCheck check = [this](std::uint64_t pid) { return stopped.contains(pid); };
    for (int i = 0; i < nodes; ++i) nodes_.push_back(std::make_unique<Node>(IdOf(i), check));
    for (const int node : node_of_rank) {
      members_.push_back({IdOf(node), "node-" + std::to_string(node), 100u + members_.size()});
    }
    for (auto& node : nodes_) EXPECT_TRUE(node->core.AddGroup(kGroup, "test", members_));
  }
  std::uint64_t scratch_in_use() const {
    std::uint64_t used = 0;
    for (const auto& node : nodes_) used += node->scratch.used_bytes();
    return used;
  }

  // Counts, so that a test notices leaked memory.
  class CountedScratch final : public ScratchMemory {
   public:
    std::byte* Take(std::uint64_t bytes) override {
      if (used_bytes() + bytes > limit) return nullptr;
      auto memory = std::make_unique<std::byte[]>(bytes);
      std::byte* const raw = memory.get();
      taken.emplace(raw, std::pair(std::move(memory), bytes));
      return raw;
    }
    void Return(std::byte* memory) override { taken.erase(memory); }
    std::uint64_t used_bytes() const override {
      std::uint64_t used = 0;
      for (const auto& [raw, entry] : taken) used += entry.second;
      return used;
    }
    std::uint64_t limit_bytes() const override { return limit; }
    std::uint64_t limit = std::uint64_t{1} << 40;
    std::map<std::byte*, std::pair<std::unique_ptr<std::byte[]>, std::uint64_t>> taken;
  };
  static constexpr std::uint64_t kGroup = 7;
  int node_of(std::uint32_t rank) const { return members_[rank].node.bytes[0] - 1; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }
  Collectives& core(int node) { return nodes_[static_cast<std::size_t>(node)]->core; }
  std::uint64_t now_ns = 1000;
  // By session (= rank + 1), in order.
  std::map<SessionId, std::vector<Completion>> completions;
  std::uint64_t violations = 0;
  // As with several rails: data arrives in any order, and is read when it is sent, which may be
  // long after the request.
  bool several_rails = false;
  std::set<std::uint64_t> stopped;  // Processes; rank r's is 100 + r.

  void Submit(std::uint32_t rank, Call call) {
    call.group = kGroup;
    call.rank = rank;
    call.session = rank + 1;
    if (call.timeout_ns == 0) call.timeout_ns = 1'000'000'000;
    // Unlimited without a value.
    if (call.input_bytes_available == 0) call.input_bytes_available = std::uint64_t{1} << 40;
    if (call.output_bytes_available == 0) call.output_bytes_available = std::uint64_t{1} << 40;
    core(node_of(rank)).Submit(call, now_ns);
    Carry(node_of(rank));
  }

  // Runs until there is nothing to do, in a random order.
  void Run() {
    while (RunOne()) {
    }
  }

  void Advance(std::uint64_t ns) {
    Tick(ns);
    Run();
  }
  // Nothing else moves in the meantime.
  void Tick(std::uint64_t ns) {
    now_ns += ns;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i]->core.OnTime(now_ns);
      Carry(static_cast<int>(i));
    }
  }

  void LoseNode(int lost) {
    gone_.push_back(lost);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (static_cast<int>(i) == lost) continue;
      wires_[{lost, static_cast<int>(i)}].clear();
      wires_[{static_cast<int>(i), lost}].clear();
      std::erase_if(nodes_[i]->posted,
                    [&](const auto& entry) { return std::get<0>(entry.first) == IdOf(lost); });
      nodes_[i]->core.OnNodeLost(nodes_[static_cast<std::size_t>(lost)]->id, "its daemon died",
                                 now_ns);
      Carry(static_cast<int>(i));
    }
  }
  // Call this after a direct call into core(node).
  void Carry(int node) { Execute(node); }

  bool IsGone(int node) const { return std::find(gone_.begin(), gone_.end(), node) != gone_.end(); }
  CountedScratch& scratch(int node) { return nodes_[static_cast<std::size_t>(node)]->scratch; }
  // Does one of the possible things; returns false if there is none.
  bool RunOne() {
    Wire picked;
    if (!Pick(picked)) return false;
    const auto [from, to] = picked;
    Node& node = *nodes_[static_cast<std::size_t>(to)];
    if (from != to) {
      std::deque<Frame>& wire = wires_[{from, to}];
      std::size_t data = 0;
      while (data < wire.size() && wire[data].header.type == wire::FrameType::kData) ++data;
      const std::size_t next = several_rails && data > 1 ? random_() % data : 0;
      Frame frame = std::move(wire[next]);
      wire.erase(wire.begin() + static_cast<std::ptrdiff_t>(next));
      if (frame.source != nullptr)
        frame.payload.assign(frame.source, frame.source + frame.header.payload_bytes);
      Deliver(from, to, frame);
    } else if (!node.withdrawn.empty()) {
      const auto [peer, key] = node.withdrawn.front();
      node.withdrawn.pop_front();
      node.core.OnWithdrawn(peer, key, now_ns);
    } else {
      const std::size_t pick = random_() % node.work.size();  // Workers finish in any order.
      const std::uint64_t cookie = node.work[pick];
      node.work.erase(node.work.begin() + static_cast<std::ptrdiff_t>(pick));
      node.core.OnLocalWorkDone(cookie, now_ns);
    }
    Execute(to);
    return true;
  }

 private:
  static NodeId IdOf(int node) {
    NodeId id;
    id.bytes[0] = static_cast<std::uint8_t>(node + 1);
    return id;
  }
  static std::vector<int> InOrder(int nodes, int ranks_per_node) {
    std::vector<int> node_of_rank;
    for (int rank = 0; rank < nodes * ranks_per_node; ++rank) {
      node_of_rank.push_back(rank / ranks_per_node);
    }
    return node_of_rank;
  }
  struct Frame {
    wire::FrameHeader header;  // kControl for a message.
    std::vector<std::byte> payload;
    const std::byte* source = nullptr;  // For data on several rails, until it goes out.
    std::uint64_t cookie = 0;
    std::shared_ptr<const v1::PeerMessage> message;
  };
  struct Posted {
    std::byte* destination;
    const std::byte* operand;
    reduce::Reduction reduction;
    bool received_first;
  };
  struct Node {
    Node(const NodeId& node, const IsStoppedCheck& is_stopped)
        : id(node), core(node, scratch, {}, &lives, is_stopped) {}
    NodeId id;
    CountedScratch scratch;
    LifeOrder lives;
    Collectives core;
    std::deque<std::uint64_t> work;  // Cookies of local work still to be "done".
    // By sender, as in a link: tags are unique between two nodes only.
    std::map<std::tuple<NodeId, OperationKey, std::uint16_t>, Posted> posted;
    std::deque<std::pair<NodeId, OperationKey>> withdrawn;
  };

  // (from, to); to == from: local work. Each non-empty queue is there once.
  using Wire = std::pair<int, int>;

  bool HasSomething(const Wire& wire) {
    if (wire.first != wire.second) return !wires_[wire].empty() && !IsGone(wire.second);
    const Node& node = *nodes_[static_cast<std::size_t>(wire.first)];
    return !node.work.empty() || !node.withdrawn.empty();
  }
  void Note(const Wire& wire) {
    if (noted_.insert(wire).second) busy_.push_back(wire);
  }
  // A random one of these; false: there is none.
  bool Pick(Wire& wire) {
    while (!busy_.empty()) {
      const std::size_t index = random_() % busy_.size();
      wire = busy_[index];
      if (HasSomething(wire)) return true;
      noted_.erase(wire);
      busy_[index] = busy_.back();
      busy_.pop_back();
    }
    return false;
  }

  void Deliver(int from, int to, const Frame& frame) {
    Node& node = *nodes_[static_cast<std::size_t>(to)];
    const NodeId& sender = nodes_[static_cast<std::size_t>(from)]->id;
    bool fine = true;
    const wire::FrameHeader& header = frame.header;
    switch (header.type) {
      case wire::FrameType::kEager:
        fine = node.core.OnEager(sender, header, frame.payload, now_ns);
        break;
      case wire::FrameType::kGrant: fine = node.core.OnGrant(sender, header, now_ns); break;
      case wire::FrameType::kCredit:
        fine = node.core.OnCredit(sender, header.group, header.offset);
        break;
      case wire::FrameType::kData: {
        const auto posted = node.posted.find({sender, KeyOf(header), header.step});
        if (posted != node.posted.end()) {
          Place(posted->second, frame);
          fine = node.core.OnData(sender, header, now_ns);
        }
        Node& back = *nodes_[static_cast<std::size_t>(from)];
        if (!IsGone(from)) {
          back.core.OnDataReleased(frame.cookie);
          Execute(from);
        }
        break;
      }
      case wire::FrameType::kControl: Deliver(sender, *frame.message, node.core); break;
      default: break;
    }
    if (!fine) ++violations;
  }

  void Deliver(const NodeId& sender, const v1::PeerMessage& message, Collectives& core) {
    if (message.has_failure_report()) core.OnReport(sender, message.failure_report(), now_ns);
    if (message.has_roll_call()) core.OnRollCall(sender, message.roll_call(), now_ns);
    const v1::RankDetached& left = message.rank_detached();
    if (message.has_rank_detached())
      core.OnDetached(sender, left.group(), left.rank(), left.collectives(), now_ns);
  }
  static void Place(const Posted& posted, const Frame& frame) {
    std::byte* const to = posted.destination + frame.header.offset;
    if (posted.operand == nullptr) {
      std::memcpy(to, frame.payload.data(), frame.payload.size());
      return;
    }
    const std::byte* inputs[] = {posted.operand + frame.header.offset, frame.payload.data()};
    if (posted.received_first) std::swap(inputs[0], inputs[1]);
    reduce::Combine(posted.reduction, inputs, 2, &to, 1,
                    frame.payload.size() / DataTypeBytes(posted.reduction.type));
  }

  void Execute(int self) {
    Node& node = *nodes_[static_cast<std::size_t>(self)];
    ActionQueue actions;
    actions.swap(node.core.actions());
    for (Action& action : actions) {
      Frame frame;
      frame.header = action.frame;
      frame.cookie = action.cookie;
      frame.message = action.message;
      const int to = action.node.bytes[0] - 1;
      switch (action.kind) {
        case Action::Kind::kLocalWork: {
          const LocalWork& work = *action.work;
          if (work.elements > 0) {
            reduce::Combine(work, work.inputs.data(), work.input_count, work.outputs.data(),
                            work.output_count, work.elements);
          }
          node.work.push_back(action.cookie);
          Note({self, self});
          break;
        }
        case Action::Kind::kPostReceive:
          node.posted[{action.node, action.key, action.step}] = {
              action.destination, action.operand, action.reduction, action.received_first};
          break;
        case Action::Kind::kWithdraw:
          std::erase_if(node.posted, [&](const auto& entry) {
            return std::get<0>(entry.first) == action.node &&
                   std::get<1>(entry.first) == action.key;
          });
          node.withdrawn.emplace_back(action.node, action.key);
          Note({self, self});
          break;
        case Action::Kind::kReturnScratch: node.scratch.Return(action.destination); break;
        case Action::Kind::kCancel:  // Frames on the wire are still released.
        case Action::Kind::kGroupFailed: break;
        case Action::Kind::kComplete:
          completions[action.session].push_back(
              {action.session, action.ticket, action.failure, action.group_failed});
          break;
        case Action::Kind::kMessage: frame.header.type = wire::FrameType::kControl; [[fallthrough]];
        case Action::Kind::kSend:
          if (several_rails && frame.header.type == wire::FrameType::kData) {
            frame.source = action.source;
          } else if (action.source != nullptr) {
            frame.payload.assign(action.source, action.source + frame.header.payload_bytes);
          }
          if (IsGone(to) || IsGone(self)) break;
          wires_[{self, to}].push_back(std::move(frame));
          Note({self, to});
      }
    }
    if (!node.core.actions().empty()) Execute(self);
  }

  std::mt19937 random_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Member> members_;
  std::map<std::pair<int, int>, std::deque<Frame>> wires_;
  std::vector<int> gone_;
  std::vector<Wire> busy_;
  std::set<Wire> noted_;
};

}  // namespace mlxcomm::collective
