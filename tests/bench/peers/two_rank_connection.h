// The one TCP connection between two ranks: rank 0 listens, rank 1 connects, in whichever order
// they start. Small segments go out at once, buffers are the system's.
//
//   RankConnection peer(rank, "10.99.0.1:20001");   // Where rank 0 listens.
//   sent += peer.Send(data.subspan(sent));          // As much as the system takes now.
//
// Owner: the system that is timed. Thread: one, main's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "proto/system/file_descriptor.h"

namespace mlxcomm::bench {

class RankConnection {
 public:
  // Throws std::runtime_error: what was tried, and the system's reason.
  RankConnection(std::uint32_t rank, const std::string& address);

  // How many bytes were sent, or received; 0: none is possible now. Throws once the connection is
  // lost.
  std::size_t Send(std::span<const std::byte> data);
  std::size_t Receive(std::span<std::byte> room);

 private:
  FileDescriptor socket_;
};

}  // namespace mlxcomm::bench
