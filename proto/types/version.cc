// In its own source, so that a new version recompiles nothing else.
#include "proto/types/version.h"

namespace mlxcomm {

const char kSoftwareVersion[] = MLXCOMM_VERSION;

}  // namespace mlxcomm
