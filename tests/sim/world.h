// A whole run: hosts, cables, jobs and faults on one schedule, and the invariants that must hold
// during it and at its end.
//
//   faults, jobs ──▶ ... all jobs are done ──▶ everything is healed ──▶ quiet ──▶ checks
//
// At the end each existing daemon must have released everything: no group, scratch memory, posted
// receive or waiting frame is left. During the run every queue stays below its bound.
//
// Owner: main. Thread: one. Memory: all that it simulates.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/cable.h"
#include "tests/sim/host.h"
#include "tests/sim/job.h"
#include "tests/sim/ledger.h"
#include "tests/sim/questions.h"
#include "tests/sim/scenario.h"
#include "tests/sim/schedule.h"

namespace mlxcomm::sim {

struct Outcome {
  std::vector<std::string> complaints;  // Empty if all is well. The first few.
  std::uint64_t events = 0;
  std::uint64_t digest = 0;  // A digest of everything that happened.
  std::uint64_t virtual_ns = 0;
  std::uint64_t calls = 0;  // Of clients that have ended.
  std::uint64_t jobs = 0;
  std::uint64_t jobs_failed = 0;  // Rightly.
  std::uint64_t shrinks = 0;      // Groups that jobs have shrunk to.
  std::uint64_t questions = 0;    // Statuses, pings and check-ups that were answered.
  std::uint64_t faults = 0;
};

class World final : public HostListener, public JobListener {
 public:
  // `log`: where readable lines go; empty means nowhere.
  World(const Scenario& scenario, std::function<void(const std::string&)> log);
  ~World() override;
  Outcome Run();
  Schedule& schedule() { return schedule_; }
  // The events of the first host's daemon: the kind, as in its events, and the cable, if the event
  // concerns one.
  using Reporter = std::function<void(const char* kind, const std::string& cable)>;
  void ReportTo(Reporter teller) { teller_ = std::move(teller); }

 private:
  // HostListener
  void OnCompleted(Host& host, const collective::Action& action) override;
  void OnSessionReleased(Host& host, collective::SessionId session) override;
  void OnEvent(Host& host, const record::LoggedEvent& event) override;
  void OnViolation(Host& host, const NodeId& node, const std::string& what) override;
  void OnHello(const Port& port, const wire::DiscoveryHello& hello) override;
  void Deliver(const Port& from, const wire::DiscoveryHello& hello);
  void PlayBack();
  void Report(const Host& host, const char* kind, const std::string& cable);
  // Both listeners
  void Log(const std::string& line) override;
  void Complain(const std::string& what) override;
  // JobListener
  bool logs() const override { return log_ != nullptr; }
  collective::SessionId NewSession(Host& host, Client& client) override;

  void MakeHosts();
  void MakeCables();
  void MakeJobs();
  void MakeFaults();
  void StartWhenPossible(Job& job);
  void AskSoon();
  void Begin(const Fault& fault);
  void End(const Fault& fault);
  void SetCable(std::size_t index, bool up);
  void SetSmallOnly(std::size_t index, bool small_only);
  void TakeDown(const Fault& fault);
  void BringBack(const Fault& fault);
  void Heal();
  void Watch();
  void CheckBounds(Host& host);
  void CheckNothingIsLeft(Host& host);
  void CheckCables(Host& host);
  void NoteQueues();
  bool AllDone() const;
  std::string NameOf(const NodeId& node) const;

  const Scenario& scenario_;
  std::function<void(const std::string&)> log_;
  Reporter teller_;
  Random random_;
  Schedule schedule_;
  Ledger ledger_;
  std::unique_ptr<Questions> questions_;
  std::vector<std::unique_ptr<Cable>> cables_;
  std::vector<std::size_t> pulled_;  // By cable: how many faults hold it down.
  std::vector<std::size_t> held_;    // By host, the same.
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Job>> jobs_;
  using SessionKey = std::pair<std::size_t, collective::SessionId>;
  std::map<SessionKey, Client*> sessions_;
  std::map<NodeId, std::string> names_;
  // By host and peer: the oldest frame that waited a moment before the end. Signs of life of
  // circuits are frames too, so some may always be in transit.
  std::map<std::pair<std::size_t, NodeId>, std::uint64_t> oldest_;
  // Recorded hellos, the newest last, with their senders.
  struct Recorded {
    const Port* port = nullptr;
    wire::DiscoveryHello hello{};
  };
  std::deque<Recorded> recorded_;
  collective::SessionId next_session_ = 1;
  bool healed_ = false;  // No more faults happen.
  std::string last_complaint_;
  Outcome outcome_;
};

}  // namespace mlxcomm::sim
