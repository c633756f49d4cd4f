// The version of mlxcomm: "0.1.0", or for an untagged commit "0.1.0.dev862+g0123abcd"
// (config/release).
#pragma once

namespace mlxcomm {

extern const char kSoftwareVersion[];

}  // namespace mlxcomm
