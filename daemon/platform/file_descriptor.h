// A file descriptor with one owner, as the daemon calls it.
#pragma once

#include "proto/system/file_descriptor.h"

namespace mlxcomm::platform {

using mlxcomm::FileDescriptor;
using mlxcomm::MakePipe;

}  // namespace mlxcomm::platform
