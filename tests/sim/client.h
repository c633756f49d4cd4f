// A client: the process of one rank. It joins its job, walks through the job's program with several
// calls in progress at a time, and checks every answer. When a rank is lost, a client that
// continues requests the shrunk group, and makes some more calls in it.
//
//   joining ──▶ walking ──its end──▶ leaving ──nothing under way──▶ gone
//      │          │ └─a rank is lost─▶ shrinking ──▶ walking on with the remaining ranks ──▲
//      │          ├──a failure, and it gives up──▲
//      │          ├──Halt: makes no more calls, but stays
//      └──────────┴──Exit: the process ends at any point
//
// A buffer that was handed back is filled with a pattern and kept for a while: a late write to it
// is detected, and a late read sends the pattern to the other ranks.
//
// Owner: Job. Thread: one. Memory: buffers of calls in progress, kKeptBytesMax of others.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/collective/action.h"
#include "daemon/collective/operation.h"
#include "daemon/node/node.h"
#include "tests/sim/program.h"
#include "tests/sim/random.h"
#include "tests/sim/schedule.h"

namespace mlxcomm::sim {

class Host;
class Job;

struct ClientOptions {
  std::uint32_t calls_max = 2;  // In progress at a time.
  std::uint64_t think_ns_max = 200 * kMicrosecond;
  std::uint64_t timeout_ns = 60 * kSecond;
  std::uint64_t join_timeout_ns = 60 * kSecond;
  std::uint64_t joins_late_ns_max = 0;  // Since the job started.
  bool gives_up = true;                 // At the first failure.
  bool shrinks = false;                 // When a rank is lost.
};

class Client {
 public:
  // Its faults, by the step of the program at which they happen; kNever: not at all.
  struct Fate {
    std::uint64_t halts_at = kNever;
    std::uint64_t exits_at = kNever;
    std::uint64_t differs_at = kNever;  // Makes a different call from the others.
    // This long after it has begun to join, or to shrink.
    std::uint64_t exits_joining_ns = kNever;
    std::uint64_t cancels_joining_ns = kNever;
    std::uint64_t exits_shrinking_ns = kNever;
    std::uint64_t cancels_shrinking_ns = kNever;
  };

  Client(Job& job, std::uint32_t rank, Host& host, const ClientOptions& options, const Fate& fate,
         Random random);

  std::uint32_t rank() const { return rank_; }
  Host& host() const { return host_; }
  collective::SessionId session() const { return session_; }
  void set_session(collective::SessionId session) { session_ = session; }
  bool gone() const { return gone_; }
  bool halted() const { return halted_; }
  bool joined() const { return joined_; }
  // It knows of a loss, and makes no more calls in its old groups.
  bool has_stopped_for_loss() const { return lost_ || shrinking() || shrinks_ > 0; }
  bool shrinking() const { return phase_ == Phase::kShrinking; }
  bool gave_up() const { return gave_up_; }  // Its last control call.
  // How long that call has lasted, or had lasted when it was answered, and its limit.
  std::uint64_t asked_for_ns() const;
  std::uint64_t asked_timeout_ns() const {
    return phase_ == Phase::kJoining ? options_.join_timeout_ns : options_.timeout_ns;
  }
  // What it asked to shrink: the world group, or the group that the world has shrunk to.
  std::uint64_t main_group() const { return main_group_; }
  // It asks because another group of the job has failed, so the main one may not have.
  bool lost_elsewhere() const { return lost_elsewhere_; }
  bool done() const { return gone_ || (halted_ && under_way_.empty()); }
  bool has_differed() const { return differed_in_.has_value(); }
  bool has_differed_elsewhere(std::uint32_t group) const {
    return has_differed() && *differed_in_ != group;
  }
  std::uint64_t finished_calls() const { return finished_; }
  std::uint32_t shrinks() const { return shrinks_; }
  // "step 7 all_reduce …": the call for which it waits.
  std::string Describe() const;

  void Start();
  // Its process ends, at any point.
  void Exit();
  void OnCompleted(const collective::Action& action);
  // The daemon releases its memory.
  void OnReleased();
  // Its host's daemon has ended: its answers will never arrive.
  void OnDaemonEnded();

 private:
  static constexpr std::size_t kKeptBytesMax = 1 << 20;
  static constexpr std::uint32_t kShrinksMax = 4;
  static constexpr std::uint32_t kStepsAfterShrink = 4;
  enum class Phase : std::uint8_t { kJoining, kWalking, kShrinking };
  // The remaining ranks of the job, once it has shrunk.
  struct Left {
    std::uint64_t group = 0;
    std::uint32_t rank = 0;
    std::uint32_t size = 0;
    std::uint32_t next = 0;  // Step.
  };
  struct Call {
    Step step;
    std::size_t index = 0;   // Which step: of the program, or of those after a shrink.
    std::uint32_t rank = 0;  // In the step's group.
    oracle::Bytes input;
    oracle::Bytes output;
    bool in_place = false;
    bool differs = false;
    bool after_shrink = false;
    std::uint64_t submitted_ns = 0;
  };

  void Join();
  void OnJoined(const v1::AttachReply& reply);
  void OnNotJoined(const Failure& failure);
  void Shrink();
  void OnShrunk(const v1::GroupReply& reply);
  void OnNotShrunk(const Failure& failure);
  void EndSoon(std::uint64_t exits_ns, std::uint64_t cancels_ns, bool joining);
  void CheckAnswered(std::uint64_t asked_ns, std::uint64_t timeout_ns, const char* what) const;
  template <typename Reply>
  std::unique_ptr<node::Answer<Reply>> Later(void (Client::*on_reply)(const Reply&),
                                             void (Client::*on_failure)(const Failure&));

  void Advance();
  void WalkOn();
  void WalkOnWithThoseLeft();
  bool MustWaitBefore(const Step& step) const;
  bool TakeStep(const Step& step);
  void Split(const Step& step);
  void OnSplit(const v1::GroupReply& reply);
  void OnNotSplit(const Failure& failure);
  void OnReleasedGroup(const v1::ReleaseReply& reply);
  void OnNotReleasedGroup(const Failure& failure);
  void LosePartsOf(const Step& fence);
  void Submit(const Step& step, std::size_t index, std::uint64_t group, std::uint32_t rank,
              bool after_shrink);
  void OnCallFailed(const Call& call, const Failure& failure);
  void Check(Call& call);
  void CheckTime(const Call& call) const;
  void Keep(oracle::Bytes buffer);
  void CheckKept(const oracle::Bytes& buffer) const;
  void Leave();
  void Complain(const std::string& what) const;

  Job& job_;
  std::uint32_t rank_;
  Host& host_;
  collective::SessionId session_ = 0;
  ClientOptions options_;
  Fate fate_;
  Random random_;
  std::uint64_t life_ = 0;  // Of its host's daemon.
  Phase phase_ = Phase::kJoining;
  bool joined_ = false;
  bool asking_ = false;  // A control call has not been answered.
  std::uint64_t asked_ns_ = 0;
  std::uint64_t asks_ = 0;       // Numbers control calls that can be cancelled.
  std::uint32_t splitting_ = 0;  // The group that it requests.
  std::size_t next_ = 0;
  std::uint64_t next_ticket_ = 1;
  std::map<std::uint64_t, Call> under_way_;  // By ticket.
  std::uint64_t fence_ = 0;                  // The ticket that it waits for; 0 if none.
  std::vector<std::uint64_t> ids_;           // By group index; 0 if unknown.
  std::vector<bool> failed_;                 // By group.
  std::uint64_t main_group_ = 0;             // The world group, or what it has shrunk to.
  Left left_;
  bool lost_elsewhere_ = false;
  bool gave_up_ = false;
  bool lost_ = false;  // A rank was lost: it shrinks as soon as nothing is in progress.
  std::uint32_t shrinks_ = 0;
  std::deque<oracle::Bytes> kept_;
  std::size_t kept_bytes_ = 0;
  bool due_ = false;
  bool leaving_ = false;
  bool halted_ = false;
  bool exited_ = false;
  bool gone_ = false;
  std::optional<std::uint32_t> differed_in_;  // The group in which it has made a different call.
  std::uint64_t finished_ = 0;
};

}  // namespace mlxcomm::sim
