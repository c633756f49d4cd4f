#include "daemon/rdma/rdma_rail.h"

#include <system_error>
#include <thread>
#include <utility>

#include "daemon/rdma/arena_regions.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::rdma {

absl::StatusOr<std::unique_ptr<RdmaRail>> RdmaRail::Create(Ready& ready,
                                                           platform::Wakeup& loop_bell) {
  absl::StatusOr<platform::Wakeup> bell = platform::Wakeup::Create();
  if (!bell.ok()) return bell.status();
  auto thread = std::make_shared<RailThread>(std::move(ready.pair), ready.regions,
                                             ready.peer_receives, ready.connection, ready.service,
                                             ready.scheduling, *std::move(bell), loop_bell);
  return std::unique_ptr<RdmaRail>(new RdmaRail(std::move(thread), std::move(ready)));
}

// The queue pair of a rail that was never started is still here, and destroying it calls the
// driver.
RdmaRail::~RdmaRail() {
  Stop();
  if (started_) return;
  auto kept = std::make_unique<std::shared_ptr<RailThread>>(std::move(thread_));
  try {
    std::thread([kept = kept.get()] { delete kept; }).detach();
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): see below.
    // Leak it: this thread must not call the driver, and the number of leaked pairs is limited.
  }
  static_cast<void>(kept.release());
}

// The thread is detached, because joining it could wait for the driver.
absl::Status RdmaRail::Start(bool resumed, rail::ArrivalClaims& claims) {
  thread_->posted().ShareClaims(claims);
  if (resumed) thread_->posted().AssumeEarlierWithdrawals();
  try {
    std::thread([thread = thread_] { thread->Run(); }).detach();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(std::string("no thread for the rail: ") + error.what());
  }
  started_ = true;
  return absl::OkStatus();
}

void RdmaRail::Stop() {
  if (started_) thread_->Stop();
}

void RdmaRail::Describe(v1::RailStatus& status) const {
  status.set_local_address(local_address_);
  status.set_remote_address(remote_address_);
  status.set_security("plain");
  status.set_copied_bytes(thread_->copied_bytes());
  status.set_direct_bytes(thread_->direct_bytes());
  status.set_service(service_ == Service::kReliable ? "RC" : "UC");
  status.set_lost_messages(thread_->lost_messages());
  if (regions_ == nullptr) return;
  status.set_arena_regions(regions_->use().arena_regions);
  status.set_arena_regions_max(regions_->regions_max());
}

}  // namespace mlxcomm::rdma
