// Stand-ins for a build without a complete <infiniband/verbs.h>.
#include "daemon/rdma/queue_pair.h"
#include "daemon/rdma/trials.h"

namespace mlxcomm::rdma {

namespace {

constexpr char kNoVerbs[] =
    "this daemon was built without RDMA: no complete infiniband/verbs.h was found (libibverbs-dev, "
    "or the SDK of macOS 26.2)";
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
