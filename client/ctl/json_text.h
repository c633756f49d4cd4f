// A daemon's answer for programs: JSON with the field names of the .proto file.
#pragma once

#include <cstdint>
#include <string>

#include <google/protobuf/message.h>

#include "proto/types/failure.h"

namespace mlxcomm::ctl {

// Every field is present, also one that is empty; 64-bit numbers are strings.
enum class JsonLayout : std::uint8_t { kIndented, kCompact };
Failure ToJson(const google::protobuf::Message& message, std::string& text,
               JsonLayout layout = JsonLayout::kIndented);

}  // namespace mlxcomm::ctl
