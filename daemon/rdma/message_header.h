// The header of each message on a queue pair; RDMA rails split their frames (frame.h) into such
// messages. Messages are numbered from 1, so a receiver detects a missing one; it then drops the
// frame in progress and continues with the next frame at `first_frame`. Each message also grants
// receives: all messages up to `seen` have arrived or are lost, and `posted` receives are free for
// later ones.
//
// Large payload may be sent without headers: `raw` messages of raw_bytes follow this one and
// continue the current frame. They are numbered too. The number of the next message with a header
// shows whether all of them have arrived; only then are they accepted. A raw message is never
// mistaken for a header, because only the two sides know the random `connection`.
//
// Little-endian. The other end is not trusted: every field is checked.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mlxcomm::rdma {

inline constexpr std::uint32_t kMessageMagic = 0x524d4c4d;  // "MLMR"
inline constexpr std::uint32_t kNoFrame = 0xffffffff;

struct MessageHeader {
  std::uint32_t magic = kMessageMagic;
  std::uint32_t bytes = 0;       // Bytes of frames after this header; the rest is unused.
  std::uint64_t connection = 0;  // RailSetup::attempt.
  std::uint64_t number = 0;
  std::uint64_t seen = 0;  // The highest number received from the other side.
  std::uint32_t posted = 0;
  std::uint32_t first_frame = kNoFrame;  // The offset of the first frame that begins in `bytes`.
  std::uint32_t raw = 0;
  std::uint32_t raw_bytes = 0;  // 0 if no raw message follows.
  std::uint32_t sum = 0;        // CRC32C of this header, with 0 here. Frames have their own sums.
  std::uint32_t unused = 0;
};
static_assert(sizeof(MessageHeader) == 56 && std::is_trivially_copyable_v<MessageHeader>);

}  // namespace mlxcomm::rdma
