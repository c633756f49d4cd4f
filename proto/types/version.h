// Which mlxcomm this is: "0.1.0", or as config/release tells commits apart, "0.1.0.dev862+g0123abcd".
#pragma once

namespace mlxcomm {

extern const char kSoftwareVersion[];

}  // namespace mlxcomm
