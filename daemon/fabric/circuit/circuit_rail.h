// A rail over a circuit, to a node that is not a neighbour. To the link it is a rail like any
// other.
//
//   node ──commands──▶ pieces of frames ──▶ circuit ══ neighbours' channels ══▶ other end
//
// It has no thread: arriving pieces are placed in the neighbour's callback, and frames go out as
// far as the window allows (wire/route.h). Owner: Link. Thread: the loop's; time is an argument.
// Memory: at most kQueueMax queued frames, and one that is being assembled.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "daemon/rail/growing_ring.h"
#include "daemon/rail/posted_receives.h"
#include "daemon/rail/rail.h"
#include "proto/wire/route.h"

namespace mlxcomm::fabric {

// Implemented by Circuits.
class CircuitPort {
 public:
  virtual ~CircuitPort() = default;
  // Copies header and payload to the neighbour's channel. Returns false if the channel is full.
  virtual bool SendOnCircuit(std::uint64_t circuit, const wire::FrameHeader& outer,
                             const std::byte* payload) = 0;
  // Called when the rail ends.
  virtual void CloseCircuit(std::uint64_t circuit, wire::CircuitEnd end,
                            const std::string& why) = 0;
};

class CircuitRail final : public rail::Rail {
 public:
  // A forwarder allows this many frames beyond the window, for heartbeats.
  static constexpr std::uint32_t kSpareFrames = 16;

  // `through`: the names of the nodes between, for display.
  CircuitRail(CircuitPort& port, std::uint64_t circuit, std::string through, std::string peer,
              const wire::VersionRange& peers_versions, std::uint64_t now_ns)
      : port_(port),
        circuit_(circuit),
        through_(std::move(through)),
        peer_(std::move(peer)),
        peers_versions_(peers_versions),
        last_received_ns_(now_ns) {}
  ~CircuitRail() override { Stop(); }

  void Expect(const rail::PostedReceive& receive, rail::ReceiveBudget::Share share) override {
    posted_.Expect(receive, share);
  }
  absl::Status Start(bool resumed, rail::ArrivalClaims& claims) override;
  bool Give(const rail::RailCommand& command) override;
  void Finish() override;
  void Stop() override { GiveUp("stopped"); }
  bool Pop(rail::RailEvent& event) override;
  bool PrepareToSleep() override { return events_.empty() && transmitted_ == 0; }
  void WakeUp() override {}
  bool is_direct() const override { return false; }
  std::uint64_t last_received_ns() const override { return last_received_ns_; }
  wire::VersionRange peers_versions() const override { return peers_versions_; }
  rail::RailFigures figures() const override {
    return {!down_, sent_bytes_, received_bytes_, round_trip_ns_};
  }
  void Describe(v1::RailStatus& status) const override;

  // Called by Circuits. The caller polls the link before `payload` becomes invalid.
  void OnPiece(const wire::FrameHeader& outer, std::span<const std::byte> payload,
               std::uint64_t now_ns);
  void OnCredit(std::uint64_t frames, std::uint64_t bytes, std::uint64_t now_ns);
  void OnClosed(rail::DownCause cause, const std::string& why,
                LinkReason reason = LinkReason::kWayEnded) {
    GoDown(cause, why, reason);
  }

 private:
  static constexpr std::size_t kQueueMax = 1024;
  // Credit is sent after this much, a small part of the window.
  static constexpr std::uint32_t kUnreportedFrames = wire::kCircuitFramesMax / 4;
  static constexpr std::uint32_t kUnreportedBytes = wire::kCircuitBytesMax / 4;

  bool RenewWaiting(const wire::FrameHeader& newer);
  void SendWhatFits();
  bool SendPiece(const wire::FrameHeader& inner, const std::byte* piece, std::uint32_t offset,
                 std::uint32_t bytes);
  void SendUnqueued(wire::FrameType type, std::uint64_t clock_ns);
  bool TakePiece(const wire::FrameHeader& outer, std::span<const std::byte> payload);
  bool BeginFrame();
  void FinishFrame(std::span<const std::byte> last_piece);
  void ReportTaken(std::size_t bytes);
  void GiveUp(const std::string& why);
  void Violation(const std::string& what);
  void GoDown(rail::DownCause cause, std::string reason, LinkReason link_reason);

  CircuitPort& port_;
  std::uint64_t circuit_;
  std::string through_;
  std::string peer_;
  wire::VersionRange peers_versions_;
  bool down_ = false;
  rail::GrowingRing<rail::OutgoingFrame> queue_;  // Not yet sent completely.
  std::uint32_t front_sent_ = 0;                  // Payload bytes of the first frame.
  std::uint64_t frames_in_flight_ = 0;
  std::uint64_t bytes_in_flight_ = 0;
  std::uint32_t transmitted_ = 0;  // Not yet reported.
  rail::GrowingRing<rail::RailEvent> events_;
  rail::PostedReceives posted_;

  // The frame that is arriving.
  bool gathering_ = false;
  wire::FrameHeader incoming_;
  std::uint32_t have_ = 0;
  std::byte* target_ = nullptr;  // nullptr if dropped, or a single piece.
  bool duplicate_ = false;
  std::unique_ptr<std::byte[]> staging_;  // Allocated for the first frame that needs it.
  std::uint32_t unreported_frames_ = 0;
  std::uint32_t unreported_bytes_ = 0;

  std::array<std::byte, wire::kSlotBytesMax> piece_;
  std::uint64_t last_received_ns_;
  std::uint64_t round_trip_ns_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t received_bytes_ = 0;
};

}  // namespace mlxcomm::fabric
