// Writes the lives of operations into the loop's track of the flight recorder, and counts them when they end
// (operation_counts.h). When a group fails it logs one line with the states of its last operations.
//
// An event costs one written cache line. An operation also costs one reading of the clock, when it ends; all
// other events of a turn get the turn's time.
//
// Owner: Node. Thread: the node's. Memory: a state for each operation that is under way,
// reused; a warm operation allocates nothing.
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

// A rank's part of an operation that the ranks carried out by themselves, as the rank says.
struct MetCall {
  std::uint32_t rank = 0;
  meeting::CallWords call;
  std::uint64_t began_ns = 0;
  std::uint64_t ended_ns = 0;
};

class OperationRecorder final : public collective::OperationObserver {
 public:
  // `now_ns` is the time of the node's turn; `clock` reads the present time.
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

  // Operations that ranks carried out by themselves, seen later than they happened: one of them,
  // and how many of a kind and type there were.
  void OnMet(const OperationKey& key, std::span<const MetCall> calls);
  void CountMet(std::size_t kind, std::size_t type, const record::OperationCounts::Counts& more) {
    counts_.AddMany(kind, type, more);
  }

  // Groups that have failed since the last call; if there are very many, the first of each second.
  struct FailedGroup {
    std::uint64_t group = 0;
    std::string name;
    Failure verdict;
  };
  bool AnyFailed() const { return !failures_reported_.empty(); }
  std::vector<FailedGroup> TakeFailures() { return std::exchange(failures_reported_, {}); }

  // From now on the record's readers see the group's name and its nodes' names.
  void NameGroup(const collective::Group& group, const JobId& job);
  // Its name is kept for a while.
  void OnGroupRemoved(std::uint64_t group) { recorder_.CloseGroup(group); }

 private:
  // Many groups may fail at once, and the loop has other work.
  static constexpr std::uint32_t kDumpsASecond = 8;
  static constexpr std::uint32_t kLinesASecond = 32;

  struct State {
    OperationKey name;
    bool called = false;
    std::uint64_t called_ns = 0;  // The first time, here and below.
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
  std::vector<State> states_;  // By Operation::id.
  std::uint64_t failures_second_ = 0;
  std::uint32_t failures_ = 0;                  // In that second.
  std::vector<FailedGroup> failures_reported_;  // At most kLinesASecond a second.
};

}  // namespace mlxcomm
