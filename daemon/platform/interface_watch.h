// Notices when a network interface gains or loses its carrier, or its addresses change: a pulled
// cable is known at once, not after missing heartbeats.
//
// The system's events only say that something has happened; a comparison of the interfaces shows
// what. So lost or strange events do no harm, and an interface that was down only for a moment,
// which connections survive, is not reported.
//
// Owner: the watcher. Thread: one. Memory: the interfaces as last seen.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/platform/interfaces.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::platform {

struct InterfaceChange {
  enum class Kind : std::uint8_t {
    kDown,  // No carrier, switched off, or gone.
    kUp,    // Running; it was not, or it has other addresses, or one that is usable now.
  };
  std::string name;
  Kind kind = Kind::kDown;

  friend bool operator==(const InterfaceChange&, const InterfaceChange&) = default;
};

std::vector<InterfaceChange> Compare(const std::vector<NetworkInterface>& before,
                                     const std::vector<NetworkInterface>& now);

class InterfaceWatch {
 public:
  // UNAVAILABLE: the system has no such events (in some containers).
  static absl::StatusOr<InterfaceWatch> Create();

  // Comparing costs some calls for each interface, and there may be endless events, as on macOS
  // about a radio's quality: after each comparison the watcher waits this long before the next
  // event.
  static constexpr std::chrono::milliseconds kPause{100};

  // Readable when Read has something to compare.
  int descriptor() const { return events_.get(); }
  // The changes since Create or the last call. Does not wait.
  std::vector<InterfaceChange> Read();

 private:
  explicit InterfaceWatch(FileDescriptor events) : events_(std::move(events)) {}

  FileDescriptor events_;
  std::vector<NetworkInterface> seen_;
};

// By system: a descriptor with its events about interfaces. Draining forgets the events, and
// returns the names of interfaces whose address is usable from now on: IPv6 addresses are listed a
// second or so before.
absl::StatusOr<FileDescriptor> OpenInterfaceEvents();
std::vector<std::string> DrainInterfaceEvents(const FileDescriptor& events);
// For an interface that is up and "running": there is something at the cable's other end.
bool HasCarrier(const std::string& interface);

}  // namespace mlxcomm::platform
