// mlxcommd as a trial of RDMA (transport/rdma/trials.h): a process that tries one thing and ends.
//
// Thread: main.
#pragma once

#include <string>

namespace mlxcomm {

// Writes "worked" or "refused", and then what came of it, to the standard output; the exit code. A
// configuration that cannot be read is taken for an empty one, which is said.
int TryRdma(const std::string& config_file, const std::string& name, const std::string& device);

}  // namespace mlxcomm
