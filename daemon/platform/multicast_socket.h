// A UDP socket for IPv6 link-local multicast on one interface: sends and receives only there, never
// through a router, and does not receive its own datagrams. Several processes may use the same
// group and port.
//
// Owner: its creator. Thread: one. Memory: the kernel's buffer, at most kReceiveBytesMax.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::platform {

class MulticastSocket {
 public:
  using Address = std::array<std::uint8_t, 16>;
  static constexpr int kReceiveBytesMax = 1024 * 1024;

  struct Place {
    std::string interface;
    std::uint32_t index = 0;  // The interface's index.
    Address source{};         // The interface's link-local address.
    Address group{};          // ff02::/16
    std::uint16_t port = 0;
    // Receives only datagrams of this size (0: any) with this beginning; macOS does not filter.
    std::uint16_t bytes = 0;
    std::array<std::uint8_t, 8> beginning{};
  };
  // UNAVAILABLE: the system's error.
  static absl::StatusOr<MulticastSocket> Open(const Place& place);

  int descriptor() const { return socket_.get(); }  // Readable when a datagram has arrived.
  // FAILED_PRECONDITION: no route, which macOS also reports if sending is forbidden.
  absl::Status Send(std::span<const std::uint8_t> datagram) const;

  struct Received {
    Address from{};
    std::size_t bytes = 0;  // Longer datagrams are truncated to the size of `into`.
    bool is_here = false;   // Received on this interface from a link-local address.
  };
  // Does not block. Returns nothing if no datagram is queued.
  std::optional<Received> Receive(std::span<std::uint8_t> into) const;
  // Datagrams that arrived but were dropped; 0 on macOS, which does not report it.
  std::uint64_t CountUnread() const;

 private:
  MulticastSocket(FileDescriptor socket, Place place)
      : socket_(std::move(socket)), place_(std::move(place)) {}

  FileDescriptor socket_;
  Place place_;
};

}  // namespace mlxcomm::platform
