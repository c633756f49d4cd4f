// The program that is to take a running daemon's place, as it describes itself.
#pragma once

#include <string>

#include "proto/wire/versions.h"

namespace mlxcomm {

struct NextProgram {
  std::string release;  // "0.2.0"
  wire::VersionRange versions{};
};

}  // namespace mlxcomm
