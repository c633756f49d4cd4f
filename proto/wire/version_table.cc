// In its own source, so that tests can link another table.

#include "proto/wire/versions.h"

namespace mlxcomm::wire {
namespace {

constexpr WireVersion kVersions[] = {
    {7, "0.1.0", "frames have sums (frame.h)"},
};

}  // namespace

std::span<const WireVersion> WireVersions() { return kVersions; }

}  // namespace mlxcomm::wire
