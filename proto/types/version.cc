// By itself, so that another version compiles nothing else again.
#include "proto/types/version.h"

namespace mlxcomm {

const char kSoftwareVersion[] = MLXCOMM_VERSION;

}  // namespace mlxcomm
