// Messages as JSON with the .proto file's field names. --json always prints one message: the daemon's
// answer, or one of ctl.proto.
#pragma once

#include <cstdint>
#include <string>

#include <google/protobuf/message.h>

#include "proto/types/failure.h"

namespace mlxcomm::ctl {

// Prints every field, even an empty one; 64-bit numbers become strings.
enum class JsonLayout : std::uint8_t { kIndented, kCompact };
Failure ToJson(const google::protobuf::Message& message, std::string& text,
               JsonLayout layout = JsonLayout::kIndented);

// For a message that this program made. Bytes that are not UTF-8 (in a path, in a name that others chose)
// become U+FFFD.
std::string JsonOf(google::protobuf::Message&& message, JsonLayout layout = JsonLayout::kIndented);

}  // namespace mlxcomm::ctl
