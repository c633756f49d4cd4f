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

absl::StatusOr<std::vector<DeviceFacts>> ListDevices(const std::string&) {
  return absl::NotFoundError(kNoVerbs);
}

absl::StatusOr<std::shared_ptr<Device>> OpenDevice(const std::string&, const std::string&,
                                                   const Limits&) {
  return absl::NotFoundError(kNoVerbs);
}

Reported DescribeDevice(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }
Reported TryDepth(const TrialSubject&) { return absl::UnimplementedError(kNoVerbs); }

}  // namespace mlxcomm::rdma
