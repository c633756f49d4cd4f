// Detects at once when a network interface gains or loses its carrier, or its addresses change.
//
// The system's events only trigger a comparison of the interfaces. So lost events do no harm, and
// an interface that was down for only a moment is not reported.
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
    kUp,    // Now running, with changed addresses, or with an address that has become usable.
  };
  std::string name;
  Kind kind = Kind::kDown;

  friend bool operator==(const InterfaceChange&, const InterfaceChange&) = default;
};

std::vector<InterfaceChange> Compare(const std::vector<NetworkInterface>& before,
                                     const std::vector<NetworkInterface>& now);

class InterfaceWatch {
 public:
  // UNAVAILABLE: the system does not report such events (some containers).
  static absl::StatusOr<InterfaceWatch> Create();

  // Minimum time between comparisons: events may be endless, such as those about a radio's quality.
  static constexpr std::chrono::milliseconds kPause{100};

  // Readable when Read should be called.
  int descriptor() const { return events_.get(); }
  // Returns the changes since Create or the last call. Does not block.
  std::vector<InterfaceChange> Read();

 private:
  explicit InterfaceWatch(FileDescriptor events) : events_(std::move(events)) {}

  FileDescriptor events_;
  std::vector<NetworkInterface> seen_;
};

// Implemented for each system. Draining discards the events and returns interfaces with an address
// that has just become usable: IPv6 addresses are listed about a second earlier.
absl::StatusOr<FileDescriptor> OpenInterfaceEvents();
std::vector<std::string> DrainInterfaceEvents(const FileDescriptor& events);
// For an interface that is up and "running": true if something is connected to the other end of its
// cable.
bool HasCarrier(const std::string& interface);

}  // namespace mlxcomm::platform
