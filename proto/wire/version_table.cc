// In its own source, so that tests can link another one. The versions:
//
//   7  since release 0.1.0  frames have sums (frame.h)
#include "proto/wire/versions.h"

namespace mlxcomm::wire {

VersionRange SpokenVersions() { return {.oldest = 7, .newest = 7}; }

}  // namespace mlxcomm::wire
