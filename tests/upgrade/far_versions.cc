// A release from years later, which no longer speaks today's versions.
#include "proto/wire/versions.h"

namespace mlxcomm::wire {
namespace {

constexpr WireVersion kVersions[] = {
    {9, "0.3.0", "a version that only tests speak"},
};

}  // namespace

std::span<const WireVersion> WireVersions() { return kVersions; }

}  // namespace mlxcomm::wire
