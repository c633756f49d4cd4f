// How two daemons join over a new connection, in virtual time: the steps of links.h in TcpFabric's
// order, without the proof of the key.
//
//   dialer ──proof──▶ acceptor: Judge
//          ◀──verdict──
//   BeginAsDialer ──introduction──▶ BeginAsAcceptor
//          ◀──introduction──                │ Finish
//   Finish
//
// At any point the cable may be pulled, a daemon stopped, killed or restarted.
//
// Owner: itself, through the events in transit (shared). Thread: one. Memory: small.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/fabric/links.h"
#include "tests/sim/connection.h"
#include "tests/sim/host.h"

namespace mlxcomm::sim {

class Hello final : public std::enable_shared_from_this<Hello> {
 public:
  Hello(Schedule& schedule, Host& dialer, Port& port, Random random);
  void Begin();

 private:
  static constexpr std::uint64_t kAnswerNsMax = 100 * kMicrosecond;
  enum Role : int { kDialer = 0, kAcceptor = 1 };

  // One side, until it has its rail.
  struct Side final : ConnectionEnd {
    void OnLeft(const Message&) override {}
    void OnBegins(const Message&) override {}
    // Frames wait for the rail.
    bool OnArrived(Message& message) override {
      if (!message.hello) return false;
      message.hello();
      return true;
    }
    void OnEnded(rail::DownCause, const std::string&) override { hello->Fail(role); }

    Hello* hello = nullptr;
    Role role = kDialer;
    Host* host = nullptr;
    int end = 0;             // The cable's.
    std::uint64_t life = 0;  // The host's daemon's.
    rail::RailPath path;
    std::optional<fabric::Links::Join> join;
    bool over = false;
  };

  Side& At(Role role) { return sides_[static_cast<std::size_t>(role)]; }
  Daemon* DaemonOf(Side& side) const;
  void Report(Role to, void (Hello::*step)());
  void OnProof();
  void OnVerdict();
  void OnDialersIntroduction();
  void OnAcceptorsIntroduction();
  void FinishAs(Role role, const wire::Introduction& theirs);
  void Fail(Role role);
  void EndDial(bool joined);

  Schedule& schedule_;
  Random random_;
  Cable& cable_;
  std::shared_ptr<Connection> connection_;
  std::array<Side, 2> sides_;
  fabric::Links::RailMark mark_;
  wire::VerdictCode verdict_ = wire::VerdictCode::kAccepted;
  std::array<wire::Introduction, 2> introductions_{};
  bool dial_ended_ = false;
};

}  // namespace mlxcomm::sim
