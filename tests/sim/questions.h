// Questions of people and tools to the daemons while jobs run and cables are pulled: statuses,
// pings, check-ups. Each must be answered in time, and with a possible answer.
//
// Owner: World. Thread: one. Memory: an entry for each question that has not been answered.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/host.h"
#include "tests/sim/ledger.h"
#include "tests/sim/random.h"
#include "tests/sim/schedule.h"

namespace mlxcomm::sim {

class Questions {
 public:
  using Hosts = std::vector<std::unique_ptr<Host>>;
  // The first two and the last outlive it.
  Questions(Schedule& schedule, Random random, const Hosts& hosts, const Ledger& ledger,
            std::function<void(const std::string&)> complain)
      : schedule_(schedule),
        random_(random),
        hosts_(hosts),
        ledger_(ledger),
        complain_(std::move(complain)) {}

  // Asks one of the three, of any host that runs.
  void Ask();
  // Everything is healed and quiet: every daemon that was asked, and still exists, must have
  // answered.
  void ExpectNoneOpen();
  // Nothing has failed, so most questions about other nodes were answered by them.
  void ExpectMostWhole();
  std::uint64_t answered() const { return answered_; }

 private:
  struct Open {
    const char* what = "";
    Host* host = nullptr;
    std::uint64_t life = 0;
    std::uint64_t asked_ns = 0;
    std::uint64_t within_ns = 0;
    std::uint64_t stopped_ns = 0;  // How long the host had been stopped by then.
  };
  // Returns the number under which the question waits; `check` checks its answer.
  template <typename Reply>
  std::unique_ptr<node::Answer<Reply>> Expect(const char* what, Host& host, std::uint64_t within_ns,
                                              std::function<std::string(const Reply&)> check);
  void AskStatus(Host& host);
  void AskPing(Host& host);
  void AskDoctor(Host& host);
  void Close(std::uint64_t number, const std::string& wrong);
  void CountWhole(bool whole);

  Schedule& schedule_;
  Random random_;
  const Hosts& hosts_;
  const Ledger& ledger_;
  std::function<void(const std::string&)> complain_;
  std::map<std::uint64_t, Open> open_;
  std::uint64_t next_ = 1;
  std::uint64_t answered_ = 0;
  std::uint64_t of_others_ = 0;  // Those that also concern another node,
  std::uint64_t whole_ = 0;      // and those that all of them have answered.
};

}  // namespace mlxcomm::sim
