// CRC32C of frames (ISA-L, which takes the processor's instructions for it and interleaves): what finds
// bytes that a cable, a port or memory on the way has changed.
//
//   writer: payload ─Sum─▶ payload_sum ┐ header ─▶ header_sum       (wire/frame.h)
//   reader: header_sum first, before any field is believed; then payload, piece by piece as it arrives
//
// Rails whose stream is encrypted have no sums: a record that was changed is not authentic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/wire/frame.h"

namespace mlxcomm::rail {

// Of the bytes that gave `sum`, and these behind them; of none: 0.
std::uint32_t ExtendSum(std::uint32_t sum, const std::byte* bytes, std::size_t count);

// `payload` is all of the header's payload; it stays as it is until it has been sent.
void PutSums(wire::FrameHeader& header, const std::byte* payload);
// False: the header was changed on the way. Else its fields of sums are cleared, as frames without sums
// have them, and `payload_sum` is what the payload has to give.
[[nodiscard]] bool TakeSums(wire::FrameHeader& header, std::uint32_t& payload_sum);

}  // namespace mlxcomm::rail
