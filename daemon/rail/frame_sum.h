// CRC32C of frames (with ISA-L). Detects bytes that a cable, a port or memory has changed on the
// way.
//
//   writer: payload ─Sum─▶ payload_sum ┐ header ─▶ header_sum       (wire/frame.h)
//   reader: header_sum first, before any field is trusted; then the payload as it arrives
//
// Encrypted rails have no sums, because TLS authenticates each record.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/wire/frame.h"

namespace mlxcomm::rail {

std::uint32_t ExtendSum(std::uint32_t sum, const std::byte* bytes, std::size_t count);

// `payload` may not change until it is sent.
void PutSums(wire::FrameHeader& header, const std::byte* payload);
// Returns false if the header is corrupt. Otherwise clears its sums and sets `payload_sum`.
[[nodiscard]] bool TakeSums(wire::FrameHeader& header, std::uint32_t& payload_sum);

}  // namespace mlxcomm::rail
