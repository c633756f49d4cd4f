#include "daemon/process/resource_limits.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "daemon/platform/system_facts.h"

namespace mlxcomm {
namespace {

// Its own sockets, clocks and wakeups (16 on Linux without neighbours), one client (8) and one tool (6).
constexpr std::uint64_t kOpenFilesNeeded = 32;
// Its program and libraries, its threads' stacks of 8 MiB, and their heaps.
constexpr std::uint64_t kAddressSpaceNeeded = 512 << 20;

absl::Status CheckOpenFiles() {
  const std::uint64_t most = platform::OpenFilesMax();
  const std::uint64_t open = platform::OpenFiles();
  if (most == 0 || most >= open + kOpenFilesNeeded) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the limit of open files (RLIMIT_NOFILE) is ", most, ", and mlxcommd needs ",
      open + kOpenFilesNeeded,
      " to start, more for each client and each neighbour: raise it to 1024 or more, with "
      "ulimit -n in the shell that starts it, LimitNOFILE in mlxcommd.service, or NumberOfFiles of "
      "HardResourceLimits and SoftResourceLimits in launchd's plist"));
}

absl::Status CheckAddressSpace() {
  const std::uint64_t most = platform::AddressSpaceMax();
  if (most == 0 || most >= kAddressSpaceNeeded) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the limit of memory (RLIMIT_AS) is ", most, " bytes of address space, and mlxcommd needs ",
      kAddressSpaceNeeded,
      " to start, and the arena of each client as well: take it away, with ulimit -v unlimited in "
      "the shell that starts it, or LimitAS in mlxcommd.service"));
}

}  // namespace

absl::Status CheckResourceLimits() {
  const absl::Status files = CheckOpenFiles();
  return files.ok() ? CheckAddressSpace() : files;
}

}  // namespace mlxcomm
