// Messages as JSON with the .proto file's field names, and their JSON Schema. --json always prints
// one message: the daemon's answer, or one of ctl.proto.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <google/protobuf/message.h>

#include "proto/types/failure.h"

namespace mlxcomm::ctl {

// Prints every field, even an empty one; 64-bit numbers become strings.
enum class JsonLayout : std::uint8_t { kIndented, kCompact };
Failure ToJson(const google::protobuf::Message& message, std::string& text,
               JsonLayout layout = JsonLayout::kIndented);

// Formats a message that this program made. Bytes that are not UTF-8 (in a path, in a name that
// others chose) become U+FFFD.
std::string JsonOf(google::protobuf::Message&& message, JsonLayout layout = JsonLayout::kIndented);

// The JSON Schema (draft 2020-12) of "mlxcomm.v1.StatusReply", as ToJson prints it. Its
// descriptions are the .proto file's comments, which the program embeds because generated code has
// none. Returns nullopt if the message is unknown.
std::optional<std::string> SchemaOfMessage(std::string_view message, std::string_view title);

}  // namespace mlxcomm::ctl
