// Finds out why a group failed: collects all ranks' calls, so that the error can name the culprit.
//
//   Open(cause) ──reports of all other nodes, or timeout──▶ closed: verdict()
//
// Ranks that called different things may each wait for data that the other never sends. Their
// reports reveal it, and a deadline becomes a MISMATCH. A rank that has not called reports where it
// waits instead. Nodes may report different operations; only calls of the same operation are
// compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/collective/action.h"
#include "daemon/collective/group_layout.h"
#include "mlxcomm/v1/peer.pb.h"

namespace mlxcomm::collective {

using RankCalls = google::protobuf::RepeatedPtrField<v1::RankCall>;

class Inquest {
 public:
  static constexpr std::uint64_t kReportWaitNs = 200'000'000;
  // The call of a rank that has finished the operation and forgotten its arguments.
  static constexpr char kFinished[] = "it earlier, and has finished";

  Inquest(const GroupLayout& layout, std::string name) : layout_(layout), name_(std::move(name)) {}

  // `awaited`: the ranks that this node waits for, if known.
  void Open(const Failure& cause, const OperationKey& operation, const RankCalls& own_calls,
            std::uint64_t now_ns, std::vector<std::uint32_t> awaited = {});
  void OnReport(std::uint16_t node, const OperationKey& operation, const RankCalls& calls);
  void OnNodeLost(std::uint16_t node);
  // Returns true once, when it closes.
  bool CloseIfDue(std::uint64_t now_ns);

  bool open() const { return state_ == State::kOpen; }
  bool closed() const { return state_ == State::kClosed; }
  std::uint64_t deadline_ns() const { return deadline_ns_; }
  // The error for every rank, once closed.
  const Failure& verdict() const { return verdict_; }
  const OperationKey& operation() const { return operation_; }

 private:
  enum class State : std::uint8_t { kIdle, kOpen, kClosed };
  struct Known {
    bool reported = false;
    OperationKey operation;  // The one that its node reported.
    v1::RankCall rank_call;
  };

  using Party = std::vector<std::uint32_t>;

  void Note(const RankCalls& calls, const OperationKey& operation, std::uint16_t node);
  bool CallsDiffer() const;
  bool SwitchToEarlierMismatch();
  bool HasCalled(std::uint32_t rank) const;
  bool IsElsewhere(std::uint32_t rank) const;
  bool HasFinished(std::uint32_t rank) const;
  std::string DescribeParty(const Party& party) const;
  enum class Scope : std::uint8_t { kAll, kElsewhere };
  std::vector<Party> PartiesOf(Scope scope) const;
  std::string DescribeParties(const std::vector<Party>& parties, std::size_t bytes_max) const;
  std::string DescribeOperation() const;
  // "rank 3 (mac-b, pid 7) called B; ranks 0-2 called A"
  std::string DescribeCalls(std::int32_t& odd_one, std::size_t bytes_max) const;
  std::string DescribeMissing(std::int32_t& first, std::size_t bytes_max) const;
  std::string DescribeAwaited(std::int32_t& first, std::size_t bytes_max) const;
  void Conclude();
  static bool IsChecked(const Known& known);  // True if MLXCOMM_CHECK is set there.
  bool AnyIsChecked() const;
  bool AllAreChecked() const;

  const GroupLayout& layout_;
  std::string name_;
  State state_ = State::kIdle;
  Failure verdict_;
  OperationKey operation_;
  std::vector<std::uint32_t> awaited_;
  std::vector<Known> known_;            // Indexed by rank.
  std::vector<std::uint8_t> reported_;  // Indexed by node.
  std::uint64_t deadline_ns_ = 0;
};

// "0-2, 5", or "1, 3, 5, 7, 9, 11, 13, 15 and 12 more"; `ranks` in ascending order.
std::string DescribeRanks(const std::vector<std::uint32_t>& ranks);
inline bool TakesPart(const OperationKey& key, std::uint32_t rank) {
  return !key.point_to_point() || rank == key.source_rank || rank == key.destination_rank;
}
// "operation 57" or "message 3 from rank 0 to rank 1"
std::string DescribeKey(const OperationKey& key);

}  // namespace mlxcomm::collective
