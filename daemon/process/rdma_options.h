// What the configuration says of RDMA, as the fabric takes it.
#pragma once

#include <string>
#include <string_view>

#include "daemon/transport/fabric.h"
#include "mlxcomm/v1/config.pb.h"

namespace mlxcomm {

// `macos_version`: platform::MacosVersion(); empty where this is no Mac.
fabric::RdmaOptions MakeRdmaOptions(const v1::RdmaConfig& config, std::string_view macos_version);
fabric::RdmaOptions MakeRdmaOptions(const v1::RdmaConfig& config);  // Of this machine.

// What is taken of devices, a line for each: its name, its value, and who says it (the limits of
// a system, or the configuration).
std::string DescribeLimits(const v1::RdmaConfig& config);

}  // namespace mlxcomm
