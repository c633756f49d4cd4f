#include "daemon/platform/interface_watch.h"

#include <fcntl.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/sockio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/platform/interfaces.h"

// Missing in some copies of the SDK; from Apple's sys/kern_event.h and net/if_media.h.
#if __has_include(<sys/kern_event.h>)
#include <sys/kern_event.h>
#else
#define SYSPROTO_EVENT 1
#define KEV_VENDOR_APPLE 1
#define KEV_NETWORK_CLASS 1
#define KEV_ANY_SUBCLASS 0
struct kev_request {
  u_int32_t vendor_code;
  u_int32_t kev_class;
  u_int32_t kev_subclass;
};
#define SIOCSKEVFILT _IOW('e', 2, struct kev_request)
#endif
#if __has_include(<net/if_media.h>)
#include <net/if_media.h>
#else
#define IFM_AVALID 0x00000001
#define IFM_ACTIVE 0x00000002
#endif

namespace mlxcomm::platform {

absl::StatusOr<FileDescriptor> OpenInterfaceEvents() {
  FileDescriptor events(::socket(PF_SYSTEM, SOCK_RAW, SYSPROTO_EVENT));
  kev_request wanted{};
  wanted.vendor_code = KEV_VENDOR_APPLE;
  wanted.kev_class = KEV_NETWORK_CLASS;
  wanted.kev_subclass = KEV_ANY_SUBCLASS;
  if (!events.valid() || ::ioctl(events.get(), SIOCSKEVFILT, &wanted) != 0 ||
      ::fcntl(events.get(), F_SETFL, O_NONBLOCK) != 0 ||
      ::fcntl(events.get(), F_SETFD, FD_CLOEXEC) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot watch the network interfaces: ", std::strerror(errno)));
  }
  return events;
}

// No event reports that an address has become usable; dialing is retried soon.
std::vector<std::string> DrainInterfaceEvents(const FileDescriptor& events) {
  char ignored[8192];
  for (;;) {
    const ssize_t got = ::recv(events.get(), ignored, sizeof ignored, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
  }
}

// The "status" of ifconfig. Interfaces without a medium count as connected.
bool HasCarrier(const std::string& interface) {
  static const FileDescriptor any = [] {  // The request names the interface.
    FileDescriptor made(::socket(AF_INET, SOCK_DGRAM, 0));
    if (made.valid()) ::fcntl(made.get(), F_SETFD, FD_CLOEXEC);
    return made;
  }();
  ifmediareq media{};
  if (!any.valid() || interface.size() >= sizeof media.ifm_name) return true;
  std::memcpy(media.ifm_name, interface.c_str(), interface.size());
  if (::ioctl(any.get(), SIOCGIFMEDIA, &media) != 0) return true;
  return (media.ifm_status & IFM_AVALID) == 0 || (media.ifm_status & IFM_ACTIVE) != 0;
}

// The system removes all addresses of a bridge's member, so a search for addresses finds none.
bool IsBridgeMember(const std::string&) { return false; }

}  // namespace mlxcomm::platform
