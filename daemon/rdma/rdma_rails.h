// All RDMA rails of this daemon: one beside each connection over an interface with an RDMA device.
//
//   connection ─▶ probe (a process of its own) ─▶ device for the connection's interface or address
//     ─▶ Setup (with the neighbour, over the channel) ─▶ DriverThread (makes, connects) ─▶ RdmaRail
//
// If RDMA is off, or a driver does not answer, neighbours that offer rails receive that as the
// reason.
//
// Owner: TcpFabric. Thread: the loop's, which never calls a driver; time is an argument. Memory:
// one entry for each path, one thread for each device in use.
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
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/link_reason.h"

namespace mlxcomm::rdma {

struct RdmaOptions {
  bool enabled = false;
  bool reports = true;        // Also report paths without a device.
  std::string library;        // The verbs library; empty: the system's own.
  std::string probe_program;  // Must run RunProbe for its argument (probe.h).
  std::uint64_t probe_timeout_ns = 5'000'000'000;
  // Must run RunDriver for its argument (driver_process.h). If empty, this process calls the
  // driver.
  std::string driver_program;
  Limits limits;
};

class RdmaRails final : public fabric::SideRails {
 public:
  // Pause before the next probe if a path has no device; doubled each time.
  static constexpr std::uint64_t kProbeAgainNsMin = 10'000'000'000;
  static constexpr std::uint64_t kProbeAgainNsMax = 600'000'000'000;

  // The arguments outlive it. `bell` wakes the loop.
  RdmaRails(RdmaOptions options, const link::FabricOptions& fabric, fabric::Links& links,
            platform::Wakeup& bell);
  ~RdmaRails() override;

  void OnConnection(const Connection& connection) override;
  void OnRailSetup(const NodeId& peer, std::span<const std::byte> payload) override;
  void OnRailGone() override { check_ = true; }
  void OnInterfaceUp(std::uint64_t now_ns) override;
  void AddMemory(const rail::ClientMemory& memory) override;
  void RemoveMemory(const std::byte* data) override;
  std::size_t Turn(std::uint64_t now_ns) override;
  std::uint64_t deadline_ns() const override;
  void Describe(v1::NodeStatus& status) const override;

 private:
  struct SideRail;
  struct Probing;
  // Why a path has no device.
  struct Fault {
    LinkReason reason = LinkReason::kNone;
    std::string text;
  };
  struct Received {
    NodeId peer;
    RailSetup message;
  };

  SideRail* Find(const NodeId& peer, const rail::RailPath& path) const;
  void StartProbe();
  bool TakeProbe(std::uint64_t now_ns);
  LinkReason ReasonNotFound() const;
  bool IsReported(const SideRail& side) const;
  static void DescribeMissing(const SideRail& side, v1::RailStatus& rail);
  void DescribeDevices(v1::TransportStatus& status) const;
  // Returns the device for the path; if empty, `why` has the reason.
  std::string DeviceFor(const SideRail& side, Fault& why) const;
  bool AnyWithoutDevice() const;
  void GiveDevices(std::uint64_t now_ns);
  std::size_t TakeResults(std::uint64_t now_ns);
  std::size_t TakeMessages(std::uint64_t now_ns);
  void Check(std::uint64_t now_ns);
  void Refuse(const Received& received, const Fault& why);
  DriverThread* DriverOf(const std::string& device, Fault& why);
  void SendTo(const NodeId& peer, const RailSetup& message);

  const RdmaOptions options_;
  const link::FabricOptions& fabric_;
  fabric::Links& links_;
  platform::Wakeup& bell_;
  absl::flat_hash_map<std::string, std::unique_ptr<DriverThread>> drivers_;
  std::vector<rail::ClientMemory> memories_;           // Also for devices that appear later.
  std::vector<std::unique_ptr<SideRail>> side_rails_;  // Destroyed before the drivers they use.
  std::uint64_t last_ticket_ = 0;
  std::deque<Received> received_;
  std::shared_ptr<Probing> probing_;  // Set while a probe runs.
  std::optional<absl::StatusOr<v1::TransportStatus>> found_;
  std::uint64_t probe_again_ns_ = kNever;
  std::uint64_t probe_pause_ns_ = kProbeAgainNsMin;
  bool check_ = false;
};

}  // namespace mlxcomm::rdma
