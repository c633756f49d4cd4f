// The next release: it speaks its own version and the previous one.
#include "proto/wire/versions.h"

namespace mlxcomm::wire {
namespace {

constexpr WireVersion kVersions[] = {
    {7, "0.1.0", "frames have sums (frame.h)"},
    {8, "0.2.0", "a version that only tests speak"},
};

}  // namespace

std::span<const WireVersion> WireVersions() { return kVersions; }

}  // namespace mlxcomm::wire
