// The implementation of Intake: the table of sessions between the acceptor, which brings new ones,
// and the listener, which gets their submissions.
//
// Owner: Daemon, as Intake. Thread: the loop's; the table that Find() reads has a mutex, because
// the control server calls it. Memory: at most clients_max + kToolsMax sessions, and what the
// acceptor has. The io_context must not run again afterwards.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "absl/container/flat_hash_map.h"
#include "daemon/intake/acceptor.h"
#include "daemon/intake/intake.h"
#include "daemon/intake/session.h"
#include "daemon/platform/peer_credentials.h"

namespace mlxcomm::intake {

class LocalIntake final : public Intake, private HelloListener, private SessionObserver {
 public:
  static constexpr std::uint32_t kToolsMax = 64;
  static constexpr std::uint32_t kToolsPerUserMax = 16;  // For users who see only their own jobs.
  static constexpr std::size_t kSubmissionsPerTurn = 64;
  // A doorbell is emptied before the loop sleeps again, and at the latest after this many turns:
  // its end shows that a process has gone.
  static constexpr std::uint32_t kTurnsUnheardMax = 64;

  LocalIntake(asio::io_context& io, IntakeOptions options, IntakeListener& listener);
  ~LocalIntake() override;
  absl::Status Listen(Door door) { return acceptor_.Listen(std::move(door)); }

  std::size_t Poll() override;
  bool PrepareToSleep() override;
  void WakeUp() override;
  void Complete(SessionId session, std::uint64_t ticket, std::uint64_t group,
                const Failure& failure, bool group_failed) override;
  std::optional<Submission> TakeOver(SessionId session,
                                     const queue::SubmissionEntry& entry) override;
  void AnswerClose(SessionId session, std::uint64_t group) override;
  bool PassDescriptor(SessionId session, int descriptor) override;
  bool AreOfOneAccount(const std::vector<SessionId>& sessions) const override;
  void End(SessionId session, const absl::Status& why) override;
  std::shared_ptr<const platform::SharedSegment> ArenaOf(SessionId session) const override;
  std::shared_ptr<ArenaPages> PagesOf(SessionId session) const override;
  CopiedResults ResultsCopiedBy(SessionId session) const override;
  void ReleaseMemory(SessionId session) override;
  std::optional<SessionIdentity> Find(std::string_view token,
                                      std::string_view grpc_peer) const override;
  IntakeCounters counters() const override;
  UseOfLimits use() const override;
  void RefuseClients(const Failure& failure) override { refusal_ = failure; }
  void StopAccepting() override { acceptor_.Stop(); }
  void Rest() override { acceptor_.Rest(); }
  bool is_at_rest() const override { return acceptor_.is_at_rest(); }
  void GoOn() override { acceptor_.GoOn(); }
  absl::StatusOr<Door> HandOver() override { return acceptor_.HandOver(); }

 private:
  struct Known {
    SessionIdentity identity;
    std::string grpc_peer;
  };

  Failure OnHello(LocalStream::socket& socket, const queue::ClientHello& hello,
                  const platform::PeerCredentials& credentials, const User& user) override;
  Failure CheckTools(const Peer& peer) const;
  // `use`: a client's, which counts it already.
  Failure Open(LocalStream::socket& socket, const Peer& peer, std::uint64_t arena_bytes,
               UserUse* use);
  void Adopt(std::unique_ptr<Session> session, ControlConnection connection);
  void OnRung(SessionId session) override;
  void OnProcessGone(SessionId session) override;
  void HearRings();
  bool TakeSubmission(Session& session);
  std::optional<Submission> Check(Session& session, const queue::SubmissionEntry& entry,
                                  bool adopted);
  void EndForGarbage(Session& session, const std::string& what);
  std::uint64_t ArenaBytes(std::uint64_t wanted) const;

  asio::io_context& io_;
  IntakeOptions options_;
  IntakeListener& listener_;
  Acceptor acceptor_;
  Failure refusal_;  // Of new clients; ok: they are served.
  SessionId next_session_ = 1;
  absl::flat_hash_map<SessionId, std::unique_ptr<Session>> sessions_;
  std::vector<Session*> polled_;  // Open clients, for Poll without hashing.
  std::vector<SessionId> rung_;   // Those whose doorbell rang and was not emptied since.
  std::uint32_t turns_unheard_ = 0;
  mutable std::mutex known_mutex_;
  absl::flat_hash_map<std::string, Known> known_;  // By token.
  std::atomic<std::uint64_t> clients_{0};
  std::uint32_t tools_ = 0;
  UserLimits limits_;
  std::atomic<std::uint64_t> garbage_{0};
  std::atomic<std::uint64_t> arena_bytes_{0};
};

}  // namespace mlxcomm::intake
