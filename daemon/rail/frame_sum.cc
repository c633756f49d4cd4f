#include "daemon/rail/frame_sum.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace mlxcomm::rail {
namespace {

std::uint32_t SumOfHeader(wire::FrameHeader header) {
  header.header_sum = 0;
  return ExtendSum(0, reinterpret_cast<const std::byte*>(&header), sizeof header);
}

}  // namespace

std::uint32_t ExtendSum(std::uint32_t sum, const std::byte* bytes, std::size_t count) {
  // ISA-L does not write to the buffer, and leaves out the inversions that CRC32C has at both ends.
  auto* from = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes));
  while (count > 0) {
    const std::size_t part = std::min<std::size_t>(count, std::numeric_limits<int>::max());
    sum = ~crc32_iscsi(from, static_cast<int>(part), ~sum);
    from += part;
    count -= part;
  }
  return sum;
}

void PutSums(wire::FrameHeader& header, const std::byte* payload) {
  header.payload_sum = ExtendSum(0, payload, header.payload_bytes);
  header.header_sum = SumOfHeader(header);
}

bool TakeSums(wire::FrameHeader& header, std::uint32_t& payload_sum) {
  if (header.header_sum != SumOfHeader(header)) return false;
  header.header_sum = 0;
  payload_sum = std::exchange(header.payload_sum, 0u);
  return true;
}

}  // namespace mlxcomm::rail
