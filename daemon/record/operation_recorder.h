// Records the events of operations in the loop's track of the flight recorder, and counts
// operations when they end (operation_counts.h). When a group fails, it logs one line with the
// states of its last operations.
//
// An event writes one cache line. Only the end of an operation reads the clock; all other events
// get the time of the turn.
//
// Owner: Node. Thread: the node's. Memory: a reused state for each operation in flight; a warm
// operation allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/collective/group.h"
#include "daemon/collective/operation_observer.h"
#include "daemon/record/flight_recorder.h"
#include "daemon/record/operation_counts.h"
#include "proto/meeting/page.h"
#include "proto/types/job_id.h"
#include "proto/types/operation_key.h"

namespace mlxcomm {

// A rank's part of an operation that ranks ran in shared memory, as the rank reports it.
struct MetCall {
  std::uint32_t rank = 0;
  meeting::CallWords call;
  std::uint64_t began_ns = 0;
  std::uint64_t ended_ns = 0;
};

class OperationRecorder final : public collective::OperationObserver {
 public:
  // `now_ns` is the time of the node's turn; `clock` reads the current time.
  OperationRecorder(record::FlightRecorder& recorder, record::OperationCounts& counts,
                    const std::uint64_t& now_ns, std::function<std::uint64_t()> clock)
      : recorder_(recorder),
        counts_(counts),
        now_ns_(now_ns),
        clock_(std::move(clock)),
        track_(recorder.AddTrack(record::TrackKind::kLoop, "loop")) {}
  ~OperationRecorder() override { recorder_.CloseTrack(track_); }

  void OnCalled(const collective::Operation& operation,
                const collective::Operation::LocalCall& local) override;
  void OnPeerFrame(const collective::Operation& operation, std::uint16_t node,
                   std::uint32_t first_rank) override;
  void OnMatched(const collective::Operation& operation) override;
  void OnMoved(const collective::Operation& operation) override;
  void OnEnded(const collective::Operation& operation, FailureCode code) override;
  void OnGroupFailed(std::uint64_t group, const std::string& name, const Failure& verdict,
                     const OperationKey& operation) override;

  // Record a past operation that ranks ran in shared memory, and count such operations.
  void OnMet(const OperationKey& key, std::span<const MetCall> calls);
  void CountMet(std::size_t kind, std::size_t type, const record::OperationCounts::Counts& more) {
    counts_.AddMany(kind, type, more);
  }

  // Groups that have failed since the last call, at most kLinesASecond a second.
  struct FailedGroup {
    std::uint64_t group = 0;
    std::string name;
    Failure verdict;
  };
  bool AnyFailed() const { return !failures_reported_.empty(); }
  std::vector<FailedGroup> TakeFailures() { return std::exchange(failures_reported_, {}); }

  // Gives the record's readers the group's name and its nodes' names.
  void NameGroup(const collective::Group& group, const JobId& job);
  void OnGroupRemoved(std::uint64_t group) { recorder_.CloseGroup(group); }

 private:
  // Many groups may fail at once, and must not block the loop.
  static constexpr std::uint32_t kDumpsASecond = 8;
  static constexpr std::uint32_t kLinesASecond = 32;

  struct State {
    OperationKey name;
    bool called = false;
    std::uint64_t called_ns = 0;  // Taken from the first call, like the next three.
    std::uint64_t bytes = 0;
    std::uint8_t kind = 0;
    std::uint8_t type = 0;
    bool moved = false;
    std::uint64_t last_byte_ns = 0;
    collective::Execution::Traffic traffic;
    std::vector<std::uint64_t> heard;  // A bit for each node.
  };
  State& StateOf(const collective::Operation& operation);
  record::Event NewEvent(record::EventKind kind, const State& state) const;
  void Write(const record::Event& event) {
    if (track_ != nullptr) track_->Write(event);
  }
  std::string Dump(std::uint64_t group, const OperationKey& operation) const;

  record::FlightRecorder& recorder_;
  record::OperationCounts& counts_;
  const std::uint64_t& now_ns_;
  const std::function<std::uint64_t()> clock_;
  record::EventRing* const track_;
  std::vector<State> states_;  // Keyed by Operation::id.
  std::uint64_t failures_second_ = 0;
  std::uint32_t failures_ = 0;  // Counted in that second.
  std::vector<FailedGroup> failures_reported_;
};

}  // namespace mlxcomm
