// Tells when a network interface gains or loses its carrier, or its addresses change: a
// cable that is pulled is known at once, not after the silence of a heartbeat.
//
// The system's events only say that something has happened; what, is found by looking and
// comparing. So events that were lost or are strange do no harm, and of an interface that
// was down for a moment only, which connections survive, nothing is told.
//
// Linux: rtnetlink. macOS: the kernel's events of the network class, for the flags there
// go on saying "running" without a cable, and the state of the medium is asked for.
//
// Owner: who watches. Thread: one. Memory: the interfaces as last seen.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/platform/file_descriptor.h"
#include "daemon/platform/interfaces.h"

namespace mlxcomm::platform {

struct InterfaceChange {
  enum class Kind : std::uint8_t {
    kDown,  // No carrier, switched off, or gone.
    kUp,    // Running; it was not, or it has other addresses, or one that may be used now.
  };
  std::string name;
  Kind kind = Kind::kDown;

  friend bool operator==(const InterfaceChange&, const InterfaceChange&) = default;
};

// What has changed from one list to the other.
std::vector<InterfaceChange> Compare(const std::vector<NetworkInterface>& before,
                                     const std::vector<NetworkInterface>& now);

class InterfaceWatch {
 public:
  // UNAVAILABLE: the system does not tell (in some containers).
  static absl::StatusOr<InterfaceWatch> Create();

  // To look costs some calls for each interface, and there may be events without end, as macOS has
  // them of a radio's quality: who has looked waits so long before it waits for the next event.
  static constexpr std::chrono::milliseconds kPause{100};

  // Readable when Read has something to look at.
  int descriptor() const { return events_.get(); }
  // What has changed since Create or the last call. Does not wait.
  std::vector<InterfaceChange> Read();

 private:
  explicit InterfaceWatch(FileDescriptor events) : events_(std::move(events)) {}

  FileDescriptor events_;
  std::vector<NetworkInterface> seen_;
};

// The system's half: a descriptor on which it tells of interfaces; forgets what it told,
// but the names of those whose address may be used from now on: IPv6 addresses are listed a
// second or so before.
absl::StatusOr<FileDescriptor> OpenInterfaceEvents();
std::vector<std::string> DrainInterfaceEvents(const FileDescriptor& events);
// Of an interface that is up and "running": there is something at the cable's other end.
bool HasCarrier(const std::string& interface);

}  // namespace mlxcomm::platform
