// All RDMA rails of this daemon: one is made beside each connection to a neighbour over an interface with
// an RDMA device, and made again when it has gone.
//
//   connection ─▶ probe (a process of its own) ─▶ device with the connection's address
//     ─▶ Setup (with the neighbour, over the channel) ─▶ DriverThread (makes, connects) ─▶ RdmaRail
//
// The device is the one that has the connection's own address among its GIDs, at whatever index, so the
// messages take the same cable as the connection. If a driver does not answer, its paths say so. Where
// RDMA is off, neighbours that offer rails get that answer.
//
// Owner: TcpFabric. Thread: the loop's, which calls no driver; time is an argument. Memory: one entry for
// each path, one thread for each device that is used.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/fabric/links.h"
#include "daemon/fabric/side_rails.h"
#include "daemon/link/fabric_listener.h"
#include "daemon/platform/wakeup.h"
#include "daemon/rdma/driver_thread.h"
#include "daemon/rdma/limits.h"
#include "daemon/rdma/setup.h"
#include "proto/types/link_reason.h"

namespace mlxcomm::v1 {
class RdmaStatus;
}

namespace mlxcomm::rdma {

// What can be chosen of RDMA rails.
struct RdmaOptions {
  bool enabled = false;
  bool reports = true;        // Also of paths without a device, that there is none, and why.
  std::string library;        // Of verbs; empty: the system's own.
  std::string probe_program;  // Runs RunProbe when it is asked to (probe.h).
  std::uint64_t probe_timeout_ns = 5'000'000'000;
  // Runs RunDriver when it is asked to (driver_process.h); empty: this process calls the
  // driver, and ends with it.
  std::string driver_program;
  Limits limits;
};

class RdmaRails final : public fabric::SideRails {
 public:
  // Until devices are looked for again, where a path has none; doubled each time.
  static constexpr std::uint64_t kProbeAgainNsMin = 10'000'000'000;
  static constexpr std::uint64_t kProbeAgainNsMax = 600'000'000'000;

  // The others outlive it. `bell` wakes the loop.
  RdmaRails(RdmaOptions options, const link::FabricOptions& fabric, fabric::Links& links,
            platform::Wakeup& bell);
  ~RdmaRails() override;

  void OnConnection(const Connection& connection) override;
  void OnRailSetup(const NodeId& peer, std::span<const std::byte> payload) override;
  void OnRailGone() override { look_ = true; }
  void OnInterfaceUp(std::uint64_t now_ns) override;
  void AddMemory(const rail::ClientMemory& memory) override;
  void RemoveMemory(const std::byte* data) override;
  std::size_t Turn(std::uint64_t now_ns) override;
  std::uint64_t deadline_ns() const override;
  void Describe(v1::NodeStatus& status) const override;

 private:
  struct Beside;
  struct Probing;
  // Why a path has no device.
  struct Lack {
    LinkReason reason = LinkReason::kNone;  // For programs.
    std::string text;                       // For people.
  };
  struct Heard {
    NodeId peer;
    wire::RailSetup message;
  };

  Beside* Find(const NodeId& peer, const rail::RailPath& path) const;
  void StartProbe();
  bool TakeProbe(std::uint64_t now_ns);
  // What came of looking for devices, as RdmaStatus has it; as a reason: none where there may be some.
  const char* Found() const;
  LinkReason WhyNotFound() const;
  bool IsReported(const Beside& beside) const;
  static void DescribeMissing(const Beside& beside, v1::RailStatus& rail);
  void DescribeDevices(v1::RdmaStatus& status) const;
  // Which device the path is for; empty: none, and why.
  std::string DeviceFor(const Beside& beside, Lack& why) const;
  bool AnyWithoutDevice() const;
  void GiveDevices(std::uint64_t now_ns);
  std::size_t TakeResults(std::uint64_t now_ns);
  std::size_t TakeMessages(std::uint64_t now_ns);
  void Look(std::uint64_t now_ns);
  void Refuse(const Heard& heard, const Lack& why);
  DriverThread* DriverOf(const std::string& device, Lack& why);
  void SendTo(const NodeId& peer, const wire::RailSetup& message);

  const RdmaOptions options_;
  const link::FabricOptions& fabric_;
  fabric::Links& links_;
  platform::Wakeup& bell_;
  absl::flat_hash_map<std::string, std::unique_ptr<DriverThread>> drivers_;
  std::vector<rail::ClientMemory> memories_;      // For devices that come.
  std::vector<std::unique_ptr<Beside>> besides_;  // They use drivers.
  std::uint64_t last_ticket_ = 0;
  std::deque<Heard> heard_;
  std::shared_ptr<Probing> probing_;  // While one runs.
  std::optional<absl::StatusOr<std::vector<DeviceFacts>>> found_;
  std::uint64_t probe_again_ns_ = kNever;
  std::uint64_t probe_pause_ns_ = kProbeAgainNsMin;
  bool look_ = false;
};

}  // namespace mlxcomm::rdma
