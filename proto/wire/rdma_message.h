// The header of each message of a queue pair: two daemons' rails cut the bytes of their frames
// (frame.h) into such messages. Messages are numbered from 1, so a receiver notices a missing one;
// the frame that was being read is then lost, and the next whole one begins at `first_frame`. Each
// message also says how much its sender can receive: all up to `seen` has arrived or is lost, and
// `posted` receives beyond it are waiting.
//
// Large payload may go without a header: `raw` messages after this one, each of raw_bytes, continue
// the frame that has begun. They are numbered too. The number of the next message with a header
// shows whether all have arrived, and only then are they accepted. A raw message is never mistaken
// for one with a header, because `connection` is random and only the two sides know it.
//
// Little-endian, asserted. It comes from an untrusted end of a queue pair: every field is checked.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mlxcomm::wire {

inline constexpr std::uint32_t kMessageMagic = 0x524d4c4d;  // "MLMR"
inline constexpr std::uint32_t kNoFrame = 0xffffffff;

struct MessageHeader {
  std::uint32_t magic = kMessageMagic;
  std::uint32_t bytes = 0;       // Of frames, behind this header; the rest has no meaning.
  std::uint64_t connection = 0;  // The number that both sides have agreed on for this queue pair.
  std::uint64_t number = 0;
  std::uint64_t seen = 0;  // The highest number that has come from the other side.
  std::uint32_t posted = 0;
  std::uint32_t first_frame = kNoFrame;  // Where, in `bytes`, a frame begins.
  std::uint32_t raw = 0;
  std::uint32_t raw_bytes = 0;  // 0: no raw message follows.
  std::uint32_t sum = 0;  // CRC32C of this header, with 0 here. Frames have sums of their own.
  std::uint32_t unused = 0;
};
static_assert(sizeof(MessageHeader) == 56 && std::is_trivially_copyable_v<MessageHeader>);

}  // namespace mlxcomm::wire
