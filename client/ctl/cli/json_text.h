// A message for programs: JSON with the field names of the .proto file. All output of --json is one
// message, a daemon's answer or one of ctl.proto.
#pragma once

#include <cstdint>
#include <string>

#include <google/protobuf/message.h>

#include "proto/types/failure.h"

namespace mlxcomm::ctl {

// Every field is present, even an empty one; 64-bit numbers are strings.
enum class JsonLayout : std::uint8_t { kIndented, kCompact };
Failure ToJson(const google::protobuf::Message& message, std::string& text,
               JsonLayout layout = JsonLayout::kIndented);

// The same for a message that this program has made, which is always well-formed except for its
// texts: bytes that are not UTF-8 (in a path, in a name that others chose) become U+FFFD.
std::string JsonOf(google::protobuf::Message&& message, JsonLayout layout = JsonLayout::kIndented);

}  // namespace mlxcomm::ctl
