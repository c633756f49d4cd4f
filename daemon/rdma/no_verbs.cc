// The daemon was built without <infiniband/verbs.h>, or with one that lacks what it uses.
#include "daemon/rdma/queue_pair.h"
#include "daemon/rdma/trials.h"

namespace mlxcomm::rdma {

namespace {

constexpr char kNoVerbs[] =
    "this daemon was built without RDMA: there was no infiniband/verbs.h with all that it uses "
    "(libibverbs-dev, or the SDK of macOS 26.2)";
using Reported = absl::StatusOr<std::string>;

}  // namespace

absl::StatusOr<std::unique_ptr<Library>> LoadLibrary(const std::string&) {
  return absl::UnavailableError(kNoVerbs);
}

Reported DescribeDevice(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }
Reported TryDepth(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }
Reported TryLargeRegion(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }
Reported TrySharedRegion(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }
Reported TryRegionOverBoundary(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }
Reported CountRegions(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }

}  // namespace mlxcomm::rdma
