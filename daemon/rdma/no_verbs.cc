// The daemon was built without <infiniband/verbs.h>, or with one that lacks what it uses.
#include "daemon/rdma/queue_pair.h"
#include "daemon/rdma/trials.h"

namespace mlxcomm::rdma {

namespace {

constexpr char kNoVerbs[] =
    "this daemon was built without RDMA: there was no infiniband/verbs.h with all that it uses "
    "(libibverbs-dev, or the SDK of macOS 26.2)";
using Told = absl::StatusOr<std::string>;

}  // namespace

absl::StatusOr<std::unique_ptr<Library>> LoadLibrary(const std::string&) {
  return absl::UnavailableError(kNoVerbs);
}

Told DescribeDevice(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }
Told TryDepth(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }
Told TryLargeRegion(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }
Told TrySharedRegion(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }
Told TryRegionOverBoundary(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }
Told CountRegions(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }

}  // namespace mlxcomm::rdma
