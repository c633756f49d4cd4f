// A rail over one TCP connection. A driver runs the writer and the reader and executes commands.
//
//   turn: commands ─▶ write what the socket takes ─▶ read what it has ─▶ sleep in poll() if nothing
//         moved (after a short spin if data has just moved), woken by the socket or the bell
//
// While there is little to carry, the daemon's loop drives the rail, so that a frame wakes one
// thread on each side instead of two. Only the driver stores `driver_`, as its last access to the
// driver's data, so the next driver sees everything. README.md, TcpRail, has the states and the
// rules.
//
// Owner: Link. Thread: its own, once it has one; the rest of Rail's calls on the loop's. Memory:
// rings and buffers of fixed size.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/platform/wakeup.h"
#include "daemon/rail/byte_stream.h"
#include "daemon/rail/frame_mover.h"
#include "daemon/rail/rail.h"
#include "daemon/rail/tcp/socket_watch.h"
#include "proto/queue/scheduling_policy.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::rail {

class TcpRail final : public Rail, public FrameMover {
 public:
  // `socket` is connected and non-blocking. Without a watch, the rail's thread always drives;
  // without a stream, the connection is plain.
  static absl::StatusOr<std::unique_ptr<TcpRail>> Create(
      FileDescriptor socket, std::string local_address, std::string remote_address,
      const queue::SchedulingPolicy& scheduling, platform::Wakeup& loop_bell,
      SocketWatches::Handle watch = nullptr, std::unique_ptr<ByteStream> stream = nullptr);
  ~TcpRail() override { Stop(); }

  void SetProvedWith(const ClusterKeyId& key) override { proved_with_ = key; }
  void SetPeersVersions(const wire::VersionRange& versions) { peers_versions_ = versions; }
  void Expect(const PostedReceive& receive, ReceiveBudget::Share share) override {
    posted().Expect(receive, share);
  }
  absl::Status Start(bool resumed, ArrivalClaims& claims) override;
  void Prepare() override;
  bool Give(const RailCommand& command) override;
  void Finish() override;
  void Stop() override;
  std::shared_ptr<void> KeepEnd() override;
  bool Pop(RailEvent& event) override;
  bool PrepareToSleep() override;
  void WakeUp() override { events_.WakeUp(); }
  std::uint64_t last_received_ns() const override { return reader_.last_received_ns(); }
  bool has_passed_large() const override { return reader_.has_passed_large(); }
  void OnRate(double bytes_per_second, std::uint64_t round_trip_ns) override;
  std::optional<HeldBytes> held() const override;
  ClusterKeyId proved_with() const override { return proved_with_; }
  void AskForNewProof() override { writer_.AskForNewProof(); }
  bool is_asked_for_new_proof() const override {
    return asked_for_new_proof_.load(std::memory_order_relaxed);
  }
  wire::VersionRange peers_versions() const override { return peers_versions_; }
  RailFigures figures() const override { return Figures(); }
  void Describe(v1::RailStatus& status) const override;
  bool has_thread() const { return thread_.joinable(); }
  bool is_encrypted() const { return stream_->is_encrypted(); }

 private:
  // The loop drives again once at most kQuietBytes moved within kQuietNs.
  static constexpr std::uint64_t kQuietNs = 2'000'000;
  static constexpr std::uint64_t kQuietBytes = 1024 * 1024;
  // More than this in one poll is a reason for the thread to drive.
  static constexpr std::uint64_t kPollBytesMax = 128 * 1024;
  // After this many empty polls, the loop waits for the watch.
  static constexpr int kEmptyPollsMax = 64;
  enum class Driver : std::uint8_t { kThread, kLoop };

  TcpRail(FileDescriptor socket, std::string local_address, std::string remote_address,
          const queue::SchedulingPolicy& scheduling, platform::Wakeup& loop_bell,
          platform::Wakeup bell, SocketWatches::Handle watch, std::unique_ptr<ByteStream> stream)
      : FrameMover(std::move(socket), std::move(stream), std::move(bell), loop_bell),
        local_address_(std::move(local_address)),
        remote_address_(std::move(remote_address)),
        scheduling_(scheduling),
        watch_(std::move(watch)),
        may_change_driver_(watch_ != nullptr) {}

  // These run on the loop's thread.
  bool LoopDrives() const {
    return !ends_ && driver_.load(std::memory_order_acquire) == Driver::kLoop;
  }
  void OnGiven(const RailCommand& command);
  void LoopTurn();
  void PollSocket();
  bool IsTooHeavy() const { return !scheduling_.loop_drives_all && IsHeavy(); }
  // Called after as much as possible has been written.
  bool IsForThread() const { return !scheduling_.loop_drives_all && (IsHeavy() || IsStuck()); }
  void WatchSocket();
  void HandOver();
  absl::Status StartThread();
  void StopDriving();

  // These run on the rail's thread.
  void Run();
  void End();
  bool Turn();
  void Park();
  bool IsQuiet(std::uint64_t now_ns);
  void Sleep();
  int SleepMs() const;
  void SendRemaining();
  void EndByReader();

  // These run on the driver's thread.
  bool IsHeavy() const { return writer_.holds_large() || reader_.posted().has_large(); }
  bool IsStuck() const { return !writer_.is_empty() && writer_.error() == 0; }
  void UpdateHeld();
  void FitToRate();
  void WakeLoop();
  void GoDown(DownCause cause, std::string reason, LinkReason link_reason = LinkReason::kNone);
  // FrameReaderPort
  void OnEvent(RailEvent&& event) override;
  void OnHeartbeat(const wire::FrameHeader& heartbeat) override;

  std::string local_address_;
  std::string remote_address_;
  std::atomic<bool> asked_for_new_proof_{false};
  std::atomic<double> rate_{0};
  std::atomic<std::uint64_t> round_trip_ns_{0};
  // Set by the thread while it drives; an estimate even if the pair is torn.
  mutable std::atomic<bool> held_asked_{false};
  std::atomic<std::uint64_t> held_bytes_{0};
  std::atomic<std::uint64_t> held_at_ns_{0};  // 0: unknown.
  ClusterKeyId proved_with_{};
  wire::VersionRange peers_versions_{};

  const queue::SchedulingPolicy scheduling_;
  std::atomic<Driver> driver_{Driver::kThread};
  // The loop's.
  SocketWatches::Handle watch_;  // Open only while the loop drives.
  bool started_ = false;
  bool ends_ = false;    // Stop or Finish was called.
  bool polls_ = true;    // Polls the socket; otherwise waits for the watch.
  bool polled_ = false;  // Polled in this turn.
  bool wrote_ = false;   // Has written since the last poll.
  int empty_polls_ = 0;

  // The driver's.
  bool may_change_driver_;              // There is a watch that can be opened.
  std::uint64_t unreported_bytes_ = 0;  // Data for whose events the loop was not woken.
  double fitted_rate_ = 0;              // The rate at the last FitSendBuffer.
  bool fitted_ = false;                 // The buffer size is not the system's.
  std::uint64_t quiet_since_ns_ = 0;
  std::uint64_t quiet_bytes_ = 0;  // The bytes moved by then.
  std::thread thread_;             // None until needed.
};

}  // namespace mlxcomm::rail
