// A message for programs: JSON with the field names of the .proto file. All that --json prints is one, a
// daemon's answer or one of ctl.proto.
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

// The same of a message that this program has made, which is always well-formed but for its texts: bytes
// that are no UTF-8 (of a path, of a name that others have chosen) are shown as U+FFFD.
std::string JsonOf(google::protobuf::Message&& message, JsonLayout layout = JsonLayout::kIndented);

}  // namespace mlxcomm::ctl
