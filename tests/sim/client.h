// A client: the process of one rank. It walks through its job's program, has some calls
// under way at a time, and checks every answer.
//
//   walking ──its end──▶ leaving ──nothing under way──▶ gone
//      │  ├──a failure, and it gives up──▲
//      │  ├──Halt: calls nothing more, but stays
//      └──┴──Exit: the process ends wherever it is
//
// A buffer that was handed back is filled with a pattern and kept for a while: whoever
// writes to it then is found out, and whoever reads it sends the pattern to the others.
//
// Owner: Job. Thread: one. Memory: buffers of calls under way, kKeptBytesMax of others.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "daemon/collective/action.h"
#include "daemon/collective/operation.h"
#include "tests/sim/program.h"
#include "tests/sim/random.h"
#include "tests/sim/schedule.h"

namespace mlxcomm::sim {

class Host;
class Job;

struct ClientOptions {
  std::uint32_t calls_max = 2;  // Under way at a time.
  std::uint64_t think_ns_max = 200 * kMicrosecond;
  std::uint64_t timeout_ns = 60 * kSecond;
  bool gives_up = true;  // At the first failure.
};

class Client {
 public:
  // What goes wrong with it, at which step of the program; kNever: nothing.
  struct Fate {
    std::uint64_t halts_at = kNever;
    std::uint64_t exits_at = kNever;
    std::uint64_t differs_at = kNever;  // Calls something else than the others.
  };

  Client(Job& job, std::uint32_t rank, Host& host, const ClientOptions& options, const Fate& fate,
         Random random);

  std::uint32_t rank() const { return rank_; }
  Host& host() const { return host_; }
  collective::SessionId session() const { return session_; }
  void set_session(collective::SessionId session) { session_ = session; }
  bool gone() const { return gone_; }
  bool halted() const { return halted_; }
  bool done() const { return gone_ || (halted_ && under_way_.empty()); }
  bool has_differed() const { return differed_; }
  std::uint64_t finished_calls() const { return finished_; }
  // "step 7 all_reduce …", of what it waits for.
  std::string Describe() const;
  std::size_t steps_taken() const { return next_; }

  void Start();
  // Its process ends, wherever it is.
  void Exit();
  void OnCompleted(const collective::Action& action);
  // The daemon lets go of its memory.
  void OnReleased();
  // Its host's daemon is no more: whatever it waits for never comes.
  void OnDaemonEnded();

 private:
  static constexpr std::size_t kKeptBytesMax = 1 << 20;
  struct Call {
    std::size_t step = 0;
    std::uint32_t rank = 0;  // In the step's group.
    oracle::Bytes input;
    oracle::Bytes output;
    bool in_place = false;
    bool differs = false;
    std::uint64_t submitted_ns = 0;
  };

  void Advance();
  void WalkOn();
  bool MustWaitBefore(const Step& step) const;
  bool TakeStep(const Step& step);
  void Split(const Step& step);
  void LosePartsOf(const Step& fence);
  bool Submit(const Step& step, std::uint32_t rank);
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
  std::size_t next_ = 0;
  std::uint64_t next_ticket_ = 1;
  std::map<std::uint64_t, Call> under_way_;  // By ticket.
  std::uint64_t fence_ = 0;                  // The ticket that it waits for; 0: none.
  std::vector<bool> failed_;                 // By group.
  std::deque<oracle::Bytes> kept_;
  std::size_t kept_bytes_ = 0;
  bool due_ = false;
  bool leaving_ = false;
  bool halted_ = false;
  bool exited_ = false;
  bool gone_ = false;
  bool differed_ = false;
  std::uint64_t finished_ = 0;
};

}  // namespace mlxcomm::sim
