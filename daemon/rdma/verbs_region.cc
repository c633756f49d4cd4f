#include "daemon/rdma/verbs_region.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"

namespace mlxcomm::rdma {
namespace {

// Keeps it until the process exits, because the driver may still read it. Reachable for leak
// checkers.
void Leave(const std::shared_ptr<const void>& owner) {
  static auto* const mutex = new std::mutex;
  static auto* const left = new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(*mutex);
  left->push_back(owner);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Region>> VerbsDevice::Register(const rail::ClientMemory& arena,
                                                                    std::byte* data,
                                                                    std::uint64_t bytes) {
  const auto full = [this](std::uint32_t most) {
    return absl::ResourceExhaustedError(
        absl::StrCat("RDMA device ", name_, " has ", most, " regions, which is the limit"));
  };
  // Queue pairs need regions as well.
  const std::uint32_t most = std::min(limits_.arena_regions_max, limits_.regions_max / 2);
  if (!TakeOne(arena_regions_, most)) return full(most);
  if (!TakeOne(regions_, limits_.regions_max)) {
    arena_regions_.fetch_sub(1);
    return full(limits_.regions_max);
  }
  ibv_mr* const region = verbs_.reg_mr(domain_, data, bytes, AccessOf(limits_));
  if (region == nullptr) {
    const int error = errno;
    regions_.fetch_sub(1);
    arena_regions_.fetch_sub(1);
    return absl::UnavailableError(absl::StrCat("RDMA device ", name_, " did not register ", bytes,
                                               " bytes: ", std::strerror(error)));
  }
  return std::make_shared<const VerbsRegion>(shared_from_this(), arena.owner, region);
}

// A region that the driver does not give back stays counted and mapped.
VerbsRegion::~VerbsRegion() {
  if (device_->verbs_.dereg_mr(region_) != 0) {
    Leave(owner_);
    return;
  }
  device_->regions_.fetch_sub(1);
  device_->arena_regions_.fetch_sub(1);
}

}  // namespace mlxcomm::rdma
