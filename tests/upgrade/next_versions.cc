// The next release: it speaks its own version and the previous one.
#include "proto/wire/versions.h"

namespace mlxcomm::wire {

VersionRange SpokenVersions() { return {.oldest = 7, .newest = 8}; }

}  // namespace mlxcomm::wire
