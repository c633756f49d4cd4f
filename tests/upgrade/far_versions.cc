// A release from years later, which no longer speaks today's versions.
#include "proto/wire/versions.h"

namespace mlxcomm::wire {

VersionRange SpokenVersions() { return {.oldest = 9, .newest = 9}; }

}  // namespace mlxcomm::wire
