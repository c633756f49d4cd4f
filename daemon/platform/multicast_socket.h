// A UDP socket for IPv6 link-local multicast on one interface: what it sends goes out
// there, what it receives came in there, and nothing of either has crossed a router.
//
// Several processes of a machine may each have one for the same group and port. Datagrams that it
// sends do not come back to this machine.
//
// Owner: its maker. Thread: one. Memory: the kernel's buffer, which has kReceiveBytesMax at most.
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
    std::uint32_t index = 0;  // The interface's.
    Address source{};         // The interface's link-local address.
    Address group{};          // ff02::/16
    std::uint16_t port = 0;
    // Only datagrams of this size (0: any) that begin so are received; on macOS, all are.
    std::uint16_t bytes = 0;
    std::array<std::uint8_t, 8> beginning{};
  };
  // UNAVAILABLE: the system's reason, for people.
  static absl::StatusOr<MulticastSocket> Open(const Place& place);

  int descriptor() const { return socket_.get(); }  // Readable when something has come.
  // FAILED_PRECONDITION: there is no route, which macOS also says where it forbids sending.
  // UNAVAILABLE: any other error.
  absl::Status Send(std::span<const std::uint8_t> datagram) const;

  struct Received {
    Address from{};
    std::size_t bytes = 0;  // At most the size of `into`, which cuts a longer one.
    bool is_here = false;   // Over this interface, from a link-local address.
  };
  // Does not wait. Nothing: there is none.
  std::optional<Received> Receive(std::span<std::uint8_t> into) const;
  // Those that came and were not received, as far as the system says (macOS does not).
  std::uint64_t CountUnread() const;

 private:
  MulticastSocket(FileDescriptor socket, Place place)
      : socket_(std::move(socket)), place_(std::move(place)) {}

  FileDescriptor socket_;
  Place place_;
};

}  // namespace mlxcomm::platform
