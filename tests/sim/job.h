// One job: its world group on several hosts, a client for each rank, and the decision whether their
// answers are true.
//
//   waits ──its hosts are there──▶ its clients join, run, leave ──all have gone──▶ over
//
// A failure is correct only if a fault happened that the job could notice, and if the rank that it
// names is one of those that had it. The ledger (ledger.h) knows these ranks for hosts and cables,
// the job itself for its clients.
//
// Owner: World. Thread: one. Memory: its clients'.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/client.h"
#include "tests/sim/host.h"
#include "tests/sim/ledger.h"
#include "tests/sim/program.h"
#include "tests/sim/schedule.h"

namespace mlxcomm::sim {

struct JobOptions {
  std::string name;
  ProgramOptions program;
  std::vector<Host*> hosts;         // By rank.
  std::vector<Client::Fate> fates;  // By rank.
  ClientOptions client;
  std::uint64_t starts_ns = 0;
  std::uint64_t late_ns_max = 3 * kSecond;  // How long after its deadline a call may end.
  // Its clients join only when all hosts reach each other; otherwise as soon as all hosts run.
  bool waits_for_links = true;
};

class JobListener {
 public:
  virtual ~JobListener() = default;
  virtual void Complain(const std::string& what) = 0;
  virtual void Log(const std::string& line) = 0;
  virtual bool logs() const = 0;  // A log is being written.
  virtual collective::SessionId NewSession(Host& host, Client& client) = 0;
};

class Job {
 public:
  Job(Schedule& schedule, JobOptions options, const Ledger& ledger, JobListener& listener,
      Random random);

  const std::string& name() const { return options_.name; }
  const Program& program() const { return program_; }
  Schedule& schedule() { return schedule_; }
  // The error in the output of `rank` in the step's group; empty if there is none. A result that is
  // the same on all ranks is computed once: the others' must be bitwise equal.
  std::string WrongIn(std::size_t index, const Step& step, std::uint32_t rank,
                      const oracle::Bytes& output);
  // How long after its deadline a call may end on that host.
  std::uint64_t late_ns_max(const Host& host) const {
    return options_.late_ns_max + ledger_.stopped_ns(host.index());
  }
  const std::vector<Host*>& hosts() const { return options_.hosts; }
  std::uint64_t starts_ns() const { return options_.starts_ns; }
  bool started() const { return !clients_.empty(); }
  bool over() const { return given_up_ || (started() && gone_ == clients_.size()); }
  // None of its clients will do anything more.
  bool done() const;
  bool failed() const { return failures_ > 0; }
  std::size_t groups_shrunk_to() const { return left_.size(); }
  std::uint64_t finished_calls() const;
  std::string Describe() const;

  bool MayStart() const;
  void Start();
  // It cannot start.
  void GiveUp() { given_up_ = true; }
  // The time since which its hosts are present and joined.
  std::uint64_t may_start_since_ns = 0;
  void OnHostEnded(const Host& host);
  // Ends its halted clients, so that everything can be released.
  void EndHalted();

  // From its clients.
  void OnFault(const std::string& what);
  // Other clients may learn that it is lost before it learns that its own call has ended.
  void OnGivesUp(const Client& client, const char* what);
  void OnJoined(const Client& client, std::uint64_t group);
  void OnNotJoined(const Client& client, const Failure& failure);
  void OnShrunk(const Client& client, const v1::GroupReply& reply);
  void OnNotShrunk(const Client& client, const Failure& failure);
  void OnFailureAfterShrink(const Client& client, const Failure& failure);
  void OnFailure(const Client& client, std::uint32_t group, const Failure& failure);
  void OnGone(const Client& client);
  void LogCall(const Client& client, const Step& step, std::size_t index, const char* what);
  void Complain(const std::string& what);

 private:
  static constexpr std::size_t kResultsKept = 8;

  std::string WhyWrong(std::uint32_t group, const Failure& failure) const;
  std::string WhyNotJoinedWrong(const Client& client, const Failure& failure) const;
  std::string WhyNotShrunkWrong(const Client& client, const Failure& failure) const;
  // For a group with these ranks of the job.
  std::string WhyLossWrong(const Failure& failure, const std::vector<std::uint32_t>& ranks) const;
  std::string WhyEndedWrong(const Client& client) const;
  std::vector<std::uint32_t> RanksOf(std::uint64_t main_group) const;
  void Judge(const Client& client, const char* where, const Failure& failure,
             const std::string& wrong);
  bool AnyMayBeLost() const;
  bool AnyIs(const std::function<bool(const Client&)>& property) const;
  bool MayBeLost(std::uint32_t rank) const;

  Schedule& schedule_;
  JobOptions options_;
  const Ledger& ledger_;
  JobListener& listener_;
  Random random_;
  Program program_;
  std::map<std::size_t, oracle::Bytes> same_for_all_;  // By step: the last kResultsKept.
  std::vector<std::unique_ptr<Client>> clients_;
  std::uint64_t started_ns_ = 0;
  std::uint64_t world_ = 0;  // Its group; 0 if no client has joined.
  std::map<std::uint64_t, std::vector<std::uint32_t>>
      left_;                          // Ranks, by the group it has shrunk to.
  std::set<std::uint32_t> departed_;  // Ranks that ended or left, for any reason.
  std::uint32_t gone_ = 0;
  std::uint64_t faults_ = 0;  // Totals of its clients.
  std::uint64_t failures_ = 0;
  bool given_up_ = false;
};

}  // namespace mlxcomm::sim
